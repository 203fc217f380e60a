"use strict";
// The page can be read without this. It shows the cell that one points at or moves to, filters and
// sorts, and keeps what is open in the address. All texts from data go through textContent.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const words = data.words;
  const panel = document.getElementById("panel");
  const tables = [...document.querySelectorAll("table.map")];
  const filters = [...document.querySelectorAll("input.filter")];
  let opened = null;  // the cell that stays in the panel
  let from = null;    // where the arrow keys are

  const column = {};
  const map_of = (table) => data.maps[table.dataset.map].map;
  for (const { map } of data.maps) map.columns.forEach((name, i) => { column[name] = i; });

  function make(name, text, more) {
    const element = document.createElement(name);
    if (text !== undefined) element.textContent = text;
    Object.assign(element, more || {});
    return element;
  }

  // ---- Cells: what a td stands for.
  const cells = new Map();
  for (const table of tables) {
    const map = map_of(table);
    const rows = map.panels[table.dataset.panel].cells;
    table.setAttribute("role", "grid");
    [...table.tBodies[0].rows].forEach((row, layer) => {
      rows[layer].forEach((values, tensor) => {
        const td = row.cells[tensor + 1];
        if (!values) return;
        cells.set(td, { td, table, map, layer, tensor, values, panel: map.panels[table.dataset.panel] });
        td.setAttribute("role", "gridcell");
        td.tabIndex = -1;
      });
    });
    const first = table.querySelector("td.first[tabindex]") || table.querySelector("td[tabindex]");
    if (first) first.tabIndex = 0;
  }
  const value = (cell, name) => cell.values[column[name]] ?? null;
  const tolerance = (cell) => cell.map.tolerances[value(cell, "tolerance")];
  const text = (cell, name) => cell.map.texts[value(cell, name) || 0];
  const state = (cell) => cell.map.states[value(cell, "state")];
  const layer_name = (cell) => cell.td.parentNode.cells[0].textContent;
  const tensor_name = (cell) => cell.map.names[cell.tensor];
  const kind = (cell) => words[cell.td.className[0]];
  const prompt_name = (cell) => cell.panel.prompt + (cell.panel.phase ? ", " + cell.panel.phase : "");
  const number = (x) => x === null || x === undefined ? "–" : String(Number(x.toPrecision(4)));
  const decimal = (hex) => BigInt("0x" + hex).toString();
  for (const cell of cells.values()) {
    cell.td.setAttribute("aria-label", `${tensor_name(cell)}, ${words.layer} ${layer_name(cell)}: ${kind(cell)}`);
  }

  // ---- The panel.
  function show(cell, stays) {
    panel.replaceChildren();
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
    if (positions > 1) at += ` (${words.positions.replace("{0}", value(cell, "failing")).replace("{1}", positions)})`;
    item(words.position, at);
    const rel = value(cell, "rel_l2");
    if (rel !== null) {
      const measure = text(cell, "measure");
      item(words.rel_l2, number(rel) + (measure ? ` (${measure})` : ""));
      const factors = data.measures[measure];
      if (factors && rel > 0) item(words.interval, `${number(rel * factors[0])} – ${number(rel * factors[1])}`);
      if (tolerance(cell) !== null) item(words.tolerance, number(tolerance(cell)));
    }
    item(words.arises, text(cell, "segment"));
    item(words.caused_by, text(cell, "caused_by"));
    item(words.details, text(cell, "details"));
    item(words.where, text(cell, "location"));
    if (value(cell, "max_abs") !== null && value(cell, "max_abs_at") !== null) {
      item(words.furthest, `${number(value(cell, "max_abs"))} @ ${value(cell, "max_abs_at")}, ${value(cell, "max_ulp")} ulp`);
    }
    item(words.inputs, inputs(cell));
    panel.append(list);
    bars(cell);
    sides(cell);
    if (stays) {
      const close = make("button", "×", { type: "button" });
      close.setAttribute("aria-label", words.close);
      close.addEventListener("click", shut);
      panel.append(close);
    }
    panel.classList.toggle("open", stays);
    panel.hidden = false;
  }

  /// What feeds the cell, with what came of it.
  function inputs(cell) {
    const found = [];
    for (const [to, from_tensor, where] of cell.map.inputs) {
      if (to !== cell.tensor) continue;
      let layer = cell.layer;
      if (where !== "same") {
        do { --layer; } while (layer >= 0 && !cell.panel.cells[layer][from_tensor]);
      }
      const td = layer >= 0 ? cell.table.tBodies[0].rows[layer].cells[from_tensor + 1] : null;
      const input = td && cells.get(td);
      if (input) found.push(`${tensor_name(input)}@${layer_name(input)}: ${kind(input)}`);
    }
    return found.join("; ");
  }

  function bars(cell) {
    const shares = value(cell, "shares");
    if (!shares) return;
    const by = value(cell, "heads") ? words.per_head : words.per_slice;
    panel.append(make("div", `${words.shares}, ${by}`, { className: "note" }));
    const box = make("div", undefined, { className: "bars" });
    const most = Math.max(...shares, 1e-9);
    box.setAttribute("role", "img");
    box.setAttribute("aria-label", `${words.shares}, ${by}: ${shares.map((share) => share / 10 + " %").join(", ")}`);
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
    const left = value(cell, "left_hash"), right = value(cell, "right_hash");
    const hash = (hex) => hex ? decimal(hex) : "–";
    add(words.hash, hash(left), right === 0 ? words.same : hash(right));
    const a = value(cell, "left_values"), b = value(cell, "right_values");
    if (a && b) {
      ["n", "min", "max", "mean", "abs_sum", "nan", "inf"].forEach((name, i) => {
        if (a[i] === null && b[i] === null) return;
        if (i > 4 && !a[i] && !b[i]) return;
        add(name, number(a[i]), number(b[i]));
      });
      if (a[7] || b[7]) add("route", cell.map.texts[a[7]], cell.map.texts[b[7]]);
    }
    const row_of = (side) => {
      const line_number = value(cell, side + "_line");
      if (line_number === null) return "–";
      const file = text(cell, side + "_source");
      return file ? `${file}:${line_number}` : String(line_number);
    };
    if (value(cell, "left_line") !== null || value(cell, "right_line") !== null) add(words.source, row_of("left"), row_of("right"));
    panel.append(table);
  }

  function shut() {
    panel.hidden = true;
    panel.classList.remove("open");
    const cell = opened;
    opened = null;
    if (cell) cell.td.focus();
    remember();
  }
  function open(cell) {
    opened = cell;
    show(cell, true);
    panel.querySelector("h3").focus();
    remember();
  }

  // ---- Pointing and moving.
  const cell_at = (target) => target instanceof Element ? cells.get(target.closest("td")) : undefined;
  document.addEventListener("pointerover", (event) => {
    if (opened || event.pointerType === "touch") return;
    const cell = cell_at(event.target);
    if (cell) show(cell, false);
    else if (!panel.contains(event.target) && !cell_at(document.activeElement)) panel.hidden = true;
  });
  document.addEventListener("focusin", (event) => {
    const cell = cell_at(event.target);
    if (!cell) return;
    for (const td of cell.table.querySelectorAll("td[tabindex='0']")) td.tabIndex = -1;
    cell.td.tabIndex = 0;
    from = cell;
    if (!opened) show(cell, false);
  });
  document.addEventListener("click", (event) => {
    const cell = cell_at(event.target);
    if (cell) open(cell);
  });
  function move(cell, down, right) {
    const rows = cell.table.tBodies[0].rows;
    let layer = cell.layer, tensor = cell.tensor;
    for (;;) {
      layer += down;
      tensor += right;
      if (layer < 0 || layer >= rows.length || tensor < 0 || tensor + 1 >= rows[layer].cells.length) return;
      const next = cells.get(rows[layer].cells[tensor + 1]);
      if (next) { next.td.focus(); return; }
    }
  }
  const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const typing = event.target instanceof HTMLInputElement;
    if (event.key === "/" && !typing && filters.length) {
      event.preventDefault();
      filters[0].focus();
      filters[0].select();
    } else if (event.key === "Escape") {
      if (typing) {
        event.target.value = "";
        filter("");
        if (from) from.td.focus();
      } else if (!panel.hidden) {
        if (opened) shut();
        else panel.hidden = true;
      }
    } else if (!typing) {
      const cell = cell_at(event.target);
      if (!cell) return;
      if (steps[event.key]) {
        event.preventDefault();
        move(cell, ...steps[event.key]);
      } else if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        open(cell);
      }
    }
  });

  // ---- Filter: every word must be in what a cell says of itself.
  function filter(query) {
    for (const input of filters) if (input.value !== query) input.value = query;
    const wanted = query.toLowerCase().split(/\s+/).filter((word) => word !== "");
    for (const cell of cells.values()) {
      const own = `${tensor_name(cell)} ${words.layer} ${layer_name(cell)} ${prompt_name(cell)} ${state(cell)} ${kind(cell)}`.toLowerCase().split(/[\s,]+/);
      const layer = layer_name(cell);
      const fits = wanted.every((word) => /^\d+$/.test(word) ? layer === word : own.some((part) => part.includes(word)));
      cell.td.classList.toggle("dim", !fits);
    }
    remember();
  }
  for (const input of filters) {
    input.addEventListener("input", () => filter(input.value));
  }
  for (const box of document.querySelectorAll(".script")) box.hidden = false;

  // ---- Sort: a click on a column's head.
  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((head, index) => {
      const button = make("button", head.textContent, { type: "button" });
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const key = (row) => row.cells[index].textContent.trim();
        const rows = [...table.tBodies[0].rows];
        rows.sort((a, b) => {
          const x = Number(key(a)), y = Number(key(b));
          const order = Number.isNaN(x) || Number.isNaN(y) ? key(a).localeCompare(key(b)) : x - y;
          return up ? order : -order;
        });
        table.tBodies[0].append(...rows);
      });
    });
  }

  // ---- The address keeps what is open.
  let restoring = false;
  function remember() {
    if (restoring) return;
    const state_now = new URLSearchParams();
    if (opened) {
      state_now.set("map", opened.table.dataset.map);
      state_now.set("panel", opened.table.dataset.panel);
      state_now.set("layer", opened.layer);
      state_now.set("tensor", tensor_name(opened));
    }
    const query = filters.length ? filters[0].value : "";
    if (query) state_now.set("filter", query);
    const fragment = state_now.toString();
    if (!fragment && !location.hash) return;
    history.replaceState(null, "", fragment ? "#" + fragment : location.pathname + location.search);
  }
  function restore() {
    const wanted = new URLSearchParams(location.hash.slice(1));
    restoring = true;
    if (wanted.has("filter")) filter(wanted.get("filter"));
    if (wanted.has("tensor")) {
      for (const cell of cells.values()) {
        if (cell.table.dataset.map === wanted.get("map") && cell.table.dataset.panel === wanted.get("panel") &&
            String(cell.layer) === wanted.get("layer") && tensor_name(cell) === wanted.get("tensor")) {
          cell.table.closest("details").open = true;
          cell.td.scrollIntoView({ block: "center", inline: "nearest" });
          open(cell);
          break;
        }
      }
    }
    restoring = false;
  }
  addEventListener("hashchange", restore);
  restore();

  // ---- On paper all of it.
  addEventListener("beforeprint", () => { for (const one of document.querySelectorAll("details")) one.open = true; });
})();
