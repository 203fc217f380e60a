// Maps of layers and trace points.
(() => {
  const { data, words, panel, cells, make, number } = page;

  // ---- What the data block has of a panel's cells: column by column, as cell_columns.h says.
  const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  function decimal(hash) {
    let value = 0n;
    for (const digit of hash) value = value * 64n + BigInt(digits.indexOf(digit));
    return value.toString();
  }
  function spread(column, ascends) {
    const values = [];
    let line = 0;
    for (const part of column) {
      const [value, times] = Array.isArray(part) ? part : [part, 1];
      for (let i = 0; i < times; ++i) values.push(ascends && value !== null ? line += value : value);
    }
    return values;
  }
  function columns_of(panel) {
    const columns = {};
    for (const [name, column] of Object.entries(panel.cells)) {
      columns[name] = name.endsWith("_hash") ? column.match(/[.=]|[^.=]{11}/g) : spread(column, name.endsWith("_line"));
    }
    return columns;
  }

  // ---- Cells: what a td stands for.
  for (const table of document.querySelectorAll("table.map[data-map]")) {
    const map = data.maps[table.dataset.map].map;
    const panel = map.panels[table.dataset.panel];
    const columns = columns_of(panel);
    let index = 0;
    table.setAttribute("role", "grid");
    page.rows_of(table).forEach((row, layer) => {
      [...map.rows[panel.rows[layer]]].forEach((there, tensor) => {
        if (there === "0") return;
        page.add_cell(row.cells[tensor + 1], { table, map, row: layer, column: tensor, columns, index, panel });
        ++index;
      });
    });
  }
  // ---- Lines that stand for several layers: a click shows those.
  const folds = [...document.querySelectorAll("tr.fold")].map((line) => {
    const button = make("button", line.cells[0].textContent, { type: "button" });
    const rows = [];
    for (let row = line.nextElementSibling; row && row.hidden; row = row.nextElementSibling) rows.push(row);
    const unfold = (shown) => {
      for (const row of rows) row.hidden = !shown;
      button.setAttribute("aria-expanded", shown);
    };
    button.addEventListener("click", () => unfold(rows[0].hidden));
    line.cells[0].replaceChildren(button);
    unfold(false);
    return unfold;
  });
  function value(cell, name) {
    const column = cell.columns[name];
    const own = column ? column[cell.index] : null;
    return own === "=" ? value(cell, name.replace("right", "left")) : own;
  }
  const hash = (cell, name) => value(cell, name) === "." ? "–" : decimal(value(cell, name));
  const tolerance = (cell) => cell.map.tolerances[value(cell, "tolerance")];
  const text = (cell, name) => value(cell, name) === null ? "" : cell.map.texts[value(cell, name)];
  const state = (cell) => cell.map.states[value(cell, "state")];
  const layer_name = (cell) => cell.td.parentNode.cells[0].textContent;
  const tensor_name = (cell) => cell.map.names[cell.column];
  const kind = (cell) => words["cell." + cell.td.className[0]];
  const prompt_name = (cell) => cell.panel.prompt + (cell.panel.phase ? ", " + cell.panel.phase : "");

  // ---- The panel.
  function show(cell) {
    panel.append(make("h3", `${tensor_name(cell)}, ${words.layer.toLowerCase()} ${layer_name(cell)}`, { tabIndex: -1 }));
    const line = make("p", undefined, { className: "state" });
    line.append(make("span", undefined, { className: "cell " + cell.td.className.split(" ")[0] }),
                make("strong", state(cell)), ` · ${kind(cell)}`);
    panel.append(line);
    const list = make("dl");
    const item = (label, content) => {
      if (content === "" || content === null) return;
      list.append(make("dt", label), make("dd", content));
    };
    item(words.prompt, prompt_name(cell));
    const positions = value(cell, "positions");
    let at = value(cell, "pos_id") === null ? "–" : String(value(cell, "pos_id"));
    if (positions > 1) at += ` (${words["tree.positions"].replace("{0}", value(cell, "failing")).replace("{1}", positions)})`;
    item(words.position, at);
    const rel = value(cell, "rel_l2");
    if (rel !== null) {
      const measure = text(cell, "measure");
      item(words.rel_l2, number(rel) + (measure ? ` (${words["measure." + measure] ?? measure})` : ""));
      const factors = data.measures[measure];
      if (factors && rel > 0) item(words["page.interval"], `${number(rel * factors[0])} – ${number(rel * factors[1])}`);
      if (tolerance(cell) !== null) item(words.tolerance, number(tolerance(cell)));
    }
    item(words["page.arises"], text(cell, "segment"));
    item(words["page.caused_by"], text(cell, "caused_by"));
    item(words.details, text(cell, "details"));
    item(words["page.where"], text(cell, "location"));
    if (value(cell, "max_abs") !== null && value(cell, "max_abs_at") !== null) {
      item(words["page.furthest"], `${number(value(cell, "max_abs"))} @ ${value(cell, "max_abs_at")}, ${value(cell, "max_ulp")} ulp`);
    }
    item(words["page.inputs"], inputs(cell));
    panel.append(list);
    bars(cell);
    sides(cell);
  }

  /// What feeds the cell, with what came of it.
  function inputs(cell) {
    const found = [];
    for (const [to, from_tensor, where] of cell.map.inputs) {
      if (to !== cell.column) continue;
      let layer = cell.row;
      if (where !== "same") {
        do { --layer; } while (layer >= 0 && cell.map.rows[cell.panel.rows[layer]][from_tensor] === "0");
      }
      const td = layer >= 0 ? page.rows_of(cell.table)[layer].cells[from_tensor + 1] : null;
      const input = td && cells.get(td);
      if (input) found.push(`${tensor_name(input)}@${layer_name(input)}: ${kind(input)}`);
    }
    return found.join("; ");
  }

  function bars(cell) {
    if (value(cell, "shares") === null) return;
    const shares = value(cell, "shares").split(" ").map(Number);
    const by = value(cell, "heads") ? words["page.per_head"] : words["page.per_slice"];
    panel.append(make("div", `${words["page.shares"]}, ${by}`, { className: "note" }));
    const box = make("div", undefined, { className: "bars" });
    const most = Math.max(...shares, 1e-9);
    box.setAttribute("role", "img");
    box.setAttribute("aria-label", `${words["page.shares"]}, ${by}: ${shares.map((share) => share / 10 + " %").join(", ")}`);
    shares.forEach((share, i) => {
      const bar = make("span", undefined, { title: `${i}: ${number(share / 10)} %` });
      bar.style.height = `${100 * share / most}%`;
      box.append(bar);
    });
    panel.append(box);
  }

  function sides(cell) {
    const table = make("table");
    const head = table.createTHead().insertRow();
    for (const name of ["", cell.map.left, cell.map.right]) head.append(make("th", name, { scope: "col" }));
    const body = table.createTBody();
    const add = (label, left, right) => {
      const row = body.insertRow();
      row.append(make("th", label, { scope: "row" }), make("td", left), make("td", right));
    };
    const same = cell.columns.right_hash[cell.index] === "=";
    add(words.hash, hash(cell, "left_hash"), same ? words["page.same_hash"] : hash(cell, "right_hash"));
    for (const name of ["n", "min", "max", "mean", "abs_sum", "nan", "inf"]) {
      const left = value(cell, "left_" + name), right = value(cell, "right_" + name);
      const counted = name === "nan" || name === "inf";
      if (counted ? left || right : left !== null || right !== null) add(name, number(left), number(right));
    }
    const routes = ["left_route", "right_route"].map((name) => text(cell, name));
    if (routes.some((route) => route)) add(words["page.route"], ...routes);
    const row_of = (side) => {
      const line_number = value(cell, side + "_line");
      if (line_number === null) return "–";
      const file = text(cell, side + "_source");
      return file ? `${file}:${line_number}` : String(line_number);
    };
    if (value(cell, "left_line") !== null || value(cell, "right_line") !== null) add(words["page.source"], row_of("left"), row_of("right"));
    panel.append(table);
    if (cell.columns.told && value(cell, "told") === null) panel.append(make("p", (words["page.untold"] ?? words["page.unhashed"]), { className: "note" }));
  }

  page.kind = {
    show,
    label: (cell) => `${tensor_name(cell)}, ${words.layer} ${layer_name(cell)}: ${kind(cell)}`,
    /// Every word must be in what a cell says of itself.
    filter(wanted) {
      for (const unfold of folds) unfold(wanted.length > 0);
      for (const cell of cells.values()) {
        const own = `${tensor_name(cell)} ${words.layer} ${layer_name(cell)} ${prompt_name(cell)} ${state(cell)} ${kind(cell)}`.toLowerCase().split(/[\s,]+/);
        const layer = layer_name(cell);
        const fits = wanted.every((word) => /^\d+$/.test(word) ? layer === word : own.some((part) => part.includes(word)));
        cell.td.classList.toggle("dim", !fits);
      }
    },
    remember(parameters, opened) {
      if (!opened) return;
      parameters.set("map", opened.table.dataset.map);
      parameters.set("panel", opened.table.dataset.panel);
      parameters.set("layer", opened.row);
      parameters.set("tensor", tensor_name(opened));
    },
    restore(wanted) {
      if (!wanted.has("tensor")) return null;
      const found = [...cells.values()].find((cell) =>
        cell.table.dataset.map === wanted.get("map") && cell.table.dataset.panel === wanted.get("panel") &&
        String(cell.row) === wanted.get("layer") && tensor_name(cell) === wanted.get("tensor"));
      if (found && found.td.parentNode.hidden) for (const unfold of folds) unfold(true);
      return found;
    },
  };
})();
