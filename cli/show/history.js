// A history: squares are the runs of a commit in a mode.
(() => {
  const { data, words, panel, cells, make, number } = page;
  const at = {};
  data.runs.columns.forEach((name, i) => { at[name] = i; });
  const field = (run, name) => data.runs.rows[run][at[name]];
  const drift = data.runs.rows.map(() => []);  // by run
  for (const row of data.drift.rows) drift[row[0]].push(row);
  const choices = [...document.querySelectorAll("[data-key]")];
  const families = [...document.querySelectorAll("section.family")];
  const rows = [...document.querySelectorAll("tr[data-run]")];

  // ---- Cells.
  for (const table of document.querySelectorAll("table.history")) {
    const family = data.families[table.dataset.map];
    table.setAttribute("role", "grid");
    [...table.tBodies[0].rows].forEach((row, mode) => {
      family.cells[mode].forEach((values, column) => {
        if (!values) return;
        const td = row.cells[column + 1];
        const link = td.querySelector("a");
        page.add_cell(td, { table, row: mode, column, n: values[0], runs: values.slice(1), name: family.columns[column],
                            mode: row.cells[0].textContent, state: (link || td).getAttribute("aria-label") });
        if (link) link.tabIndex = -1;
      });
    });
    table.parentNode.scrollLeft = table.parentNode.scrollWidth;  // the newest
  }

  // ---- The panel.
  const place = (cause, layer, tensor, prompt) =>
    cause === null ? "" : `${cause}: ${tensor}, ${words.layer.toLowerCase()} ${layer}${prompt === undefined || prompt === null ? "" : ", " + prompt}`;
  function show(cell) {
    panel.append(make("h3", `${cell.mode}, ${cell.name}`, { tabIndex: -1 }));
    const line = make("p", undefined, { className: "state" });
    line.append(make("span", undefined, { className: "cell " + cell.td.className.replace(" first", "").replace(" dim", "") }), make("strong", cell.state));
    panel.append(line);
    if (cell.runs.length) details(cell.runs[0]);
    if (cell.n > 1) others(cell);
  }
  function details(run) {
    const list = make("dl");
    const item = (label, content) => {
      if (content === "" || content === null || content === undefined) return;
      const dd = make("dd");
      dd.append(content);
      list.append(make("dt", label), dd);
    };
    const file = data.pages[run];
    item(words.run, field(run, "run"));
    if (file) item("", make("a", words["history.open_page"], { href: file }));
    item(words.date, field(run, "date"));
    item(words.commit, field(run, "commit_sha"));
    item(words.verdict, data.heads[run]);
    item("", place(field(run, "first_fail"), field(run, "layer"), field(run, "tensor"), field(run, "prompt")));
    for (const gate of ["strict", "numeric"]) {
      item(words[gate + "_verdict"], field(run, gate + "_verdict"));
      item("", place(field(run, gate + "_first_fail"), field(run, gate + "_layer"), field(run, gate + "_tensor")));
    }
    if (field(run, "injected")) item(words["brief.changed"], words["history.injected"]);
    else if (field(run, "change")) {
      item(words["brief.changed"], field(run, "change"));
      item(words["brief.since"], field(run, "baseline"));
      if (field(run, "changed_tensor") !== null) item("", `${field(run, "changed_tensor")}, ${words.layer.toLowerCase()} ${field(run, "changed_layer")}`);
      item("", field(run, "why_not"));
    }
    item(words.total_pairs, `${field(run, "pairs")} (${field(run, "rounding")} ${words["cell.r"]}, ${field(run, "divergent")} ${words["cell.f"]})`);
    panel.append(list);
    furthest(run);
  }
  function furthest(run) {
    const ratio = (row) => row[6] !== undefined && row[6] !== null && row[7] > 0 ? row[6] / row[7] : -1;
    const measured = drift[run].filter((row) => ratio(row) >= 0).sort((a, b) => ratio(b) - ratio(a)).slice(0, 6);
    if (!measured.length) return;
    const table = make("table");
    const head = table.createTHead().insertRow();
    for (const name of [words.tensor, words.layer, words.rel_l2, words.tolerance]) head.append(make("th", name, { scope: "col" }));
    const body = table.createTBody();
    for (const row of measured) {
      const line = body.insertRow();
      line.append(make("th", data.tensors[row[1]], { scope: "row" }), make("td", String(row[8])), make("td", number(row[6])), make("td", number(row[7])));
    }
    panel.append(make("p", words["history.drift.worst"], { className: "note" }), table);
  }
  function others(cell) {
    panel.append(make("p", `${words["history.others"]}: ${cell.n}`, { className: "note" }));
    const list = make("ul");
    for (const run of cell.runs.slice(0, 12)) {
      const entry = make("li");
      const name = field(run, "run");
      entry.append(data.pages[run] ? make("a", name, { href: data.pages[run] }) : name, ` ${data.heads[run]}`);
      if (field(run, "change") && !field(run, "injected")) entry.append(`, ${field(run, "change")}`);
      list.append(entry);
    }
    if (cell.n > Math.min(cell.runs.length, 12)) list.append(make("li", words["history.more"].replace("{0}", cell.n - Math.min(cell.runs.length, 12))));
    panel.append(list);
  }

  // ---- Filter: a run fits when all that was chosen and every word of the text is its own.
  const chosen = (key) => choices.find((one) => one.dataset.key === key).value;
  const texts = data.runs.rows.map((row, run) =>
    ["experiment", "mode", "date", "commit_sha", "run", "change", "tensor", "strict_tensor", "numeric_tensor", "changed_tensor", "dtype", "lineage"]
      .map((name) => row[at[name]] ?? "").concat(data.heads[run]).join("\n").toLowerCase());
  function fits(run, wanted) {
    const date = field(run, "date") ?? "";
    const tensor = chosen("tensor");
    return (!chosen("experiment") || field(run, "experiment") === chosen("experiment")) &&
      (!chosen("mode") || field(run, "mode") === chosen("mode")) &&
      (!chosen("from") || date >= chosen("from")) && (!chosen("to") || date !== "" && date.slice(0, chosen("to").length) <= chosen("to")) &&
      (!tensor || ["tensor", "strict_tensor", "numeric_tensor", "changed_tensor"].some((name) => field(run, name) === tensor) ||
        drift[run].some((row) => data.tensors[row[1]] === tensor)) &&
      wanted.every((word) => texts[run].includes(word));
  }
  const count = document.querySelector(".fits");
  function filter(wanted) {
    const fit = data.runs.rows.map((_, run) => fits(run, wanted));
    const all = !wanted.length && choices.every((one) => !one.value);
    for (const cell of cells.values()) cell.td.classList.toggle("dim", !all && !cell.runs.some((run) => fit[run]));
    for (const family of families) family.hidden = !all && !family.querySelector("td[tabindex]:not(.dim)");
    for (const details of document.querySelectorAll("details.drift")) {
      const row = details.parentNode.querySelector("table.history").tBodies[0].rows[details.dataset.number];
      details.hidden = !all && ![...row.cells].some((td) => td.hasAttribute("tabindex") && !td.classList.contains("dim"));
    }
    for (const figure of document.querySelectorAll("figure[data-tensor]")) figure.hidden = chosen("tensor") !== "" && figure.dataset.tensor !== chosen("tensor");
    for (const row of rows) row.hidden = !fit[row.dataset.run];
    if (count) count.textContent = all ? "" : words["history.fits"].replace("{0}", fit.filter((one) => one).length).replace("{1}", fit.length);
  }
  const words_of = (text) => text.toLowerCase().split(/\s+/).filter((word) => word !== "");
  for (const one of choices) {
    one.addEventListener("input", () => { filter(words_of(page.query())); page.remember(); });
  }

  page.kind = {
    show,
    filter,
    label: (cell) => `${cell.mode}, ${cell.name}: ${cell.state}`,
    remember(parameters, opened) {
      for (const one of choices) if (one.value) parameters.set(one.dataset.key, one.value);
      if (!opened || !opened.runs.length) return;
      parameters.set("run", field(opened.runs[0], "run"));
    },
    restore(wanted) {
      for (const one of choices) one.value = wanted.get(one.dataset.key) ?? "";
      filter(words_of(wanted.get("filter") ?? ""));
      if (!wanted.has("run")) return null;
      return [...cells.values()].find((cell) => cell.runs.some((run) => field(run, "run") === wanted.get("run")));
    },
  };
})();
