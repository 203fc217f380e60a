"use strict";
// The page can be read without this. It shows the cell that one points at or moves to, filters and
// sorts, and keeps what is open in the address. All texts from data go through textContent.
// What all pages share; map.js and history.js say what cells stand for (page.kind).
const page = (() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const panel = document.getElementById("panel");
  const filters = [...document.querySelectorAll("input.filter")];
  const cells = new Map();  // td to what it stands for: {td, table, row, column, ...}
  let opened = null;  // the cell that stays in the panel
  let from = null;    // where the arrow keys are
  // label(cell), show(cell), filter(words), remember(parameters), restore(parameters): a cell to open
  const page = { data, words: data.words, panel, cells, kind: null, make, add_cell, rows_of, remember, start, query, number };

  function make(name, text, more) {
    const element = document.createElement(name);
    if (text !== undefined) element.textContent = text;
    Object.assign(element, more || {});
    return element;
  }
  function number(x) {
    if (x === null || x === undefined) return "–";
    return Number.isInteger(x) ? String(x) : String(Number(x.toPrecision(4)));
  }
  function add_cell(td, cell) {
    cells.set(td, { td, ...cell });
    td.setAttribute("role", "gridcell");
    td.tabIndex = -1;
  }

  // Those of a map, without the lines that stand for several.
  function rows_of(table) {
    return [...table.tBodies[0].rows].filter((row) => !row.classList.contains("fold"));
  }

  // ---- The panel.
  function show(cell, stays) {
    panel.replaceChildren();
    page.kind.show(cell);
    if (stays) {
      const close = make("button", "×", { type: "button" });
      close.setAttribute("aria-label", data.words["page.close"]);
      close.addEventListener("click", shut);
      panel.append(close);
    }
    panel.classList.toggle("open", stays);
    panel.hidden = false;
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
    (panel.querySelector("a") || panel.querySelector("h3")).focus();
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
    if (cell && !event.target.closest("a")) open(cell);
  });
  function move(cell, down, right) {
    const rows = rows_of(cell.table);
    let row = cell.row, column = cell.column;
    for (;;) {
      row += down;
      column += right;
      if (row < 0 || row >= rows.length || column < 0 || column + 1 >= rows[row].cells.length) return;
      const next = cells.get(rows[row].cells[column + 1]);
      if (next && !rows[row].hidden) { next.td.focus(); return; }
    }
  }
  const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const typing = event.target.matches("input, select");
    if (event.key === "/" && !typing && filters.length) {
      event.preventDefault();
      filters[0].focus();
      filters[0].select();
    } else if (event.key === "Escape") {
      if (typing) {
        if (event.target.matches(".filter")) filter("");
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

  // ---- Filter: what fits is for the kind of page to say.
  function query() {
    return filters.length ? filters[0].value : "";
  }
  function filter(text) {
    for (const input of filters) if (input.value !== text) input.value = text;
    page.kind.filter(text.toLowerCase().split(/\s+/).filter((word) => word !== ""));
    remember();
  }
  for (const input of filters) {
    input.addEventListener("input", () => filter(input.value));
  }

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
    const state = new URLSearchParams();
    page.kind.remember(state, opened);
    if (query()) state.set("filter", query());
    const fragment = state.toString();
    if (!fragment && !location.hash) return;
    history.replaceState(null, "", fragment ? "#" + fragment : location.pathname + location.search);
  }
  function restore() {
    const wanted = new URLSearchParams(location.hash.slice(1));
    restoring = true;
    const cell = page.kind.restore(wanted);
    if (wanted.has("filter")) filter(wanted.get("filter"));
    if (cell) {
      const box = cell.table.closest("details");
      if (box) box.open = true;
      cell.td.scrollIntoView({ block: "center", inline: "nearest" });
      open(cell);
    }
    restoring = false;
  }

  // ---- On paper all of it.
  addEventListener("beforeprint", () => { for (const one of document.querySelectorAll("details")) one.open = true; });

  function start() {
    for (const box of document.querySelectorAll(".script")) box.hidden = false;
    if (!page.kind) return;
    for (const cell of cells.values()) cell.td.setAttribute("aria-label", page.kind.label(cell));
    for (const table of document.querySelectorAll("table[role=grid]")) {
      const first = table.querySelector("td.first[tabindex]") || table.querySelector("td[tabindex]");
      if (first) first.tabIndex = 0;
    }
    addEventListener("hashchange", restore);
    restore();
  }
  return page;
})();
