"use strict";
// Everything shown comes from one block of JSON and is put into the page as text, never as markup.
const data = JSON.parse(document.getElementById("data").textContent);

// ---- Elements -------------------------------------------------------------------------------------------------------

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}
const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

let names = 0;
function section(title, hint) {
  const id = `part-${++names}`;
  const node = el("section", { "aria-labelledby": id }, el("h2", { id }, title), hint ? el("p", { class: "hint" }, hint) : null);
  document.getElementById("content").append(node);
  document.getElementById("nav").append(el("a", { href: `#${id}` }, title));
  return node;
}

function choose(label, options, value, onchange) {
  const select = el("select", { onchange: () => onchange(select.value) },
    ...options.map(([key, text]) => el("option", { value: key }, text)));
  select.value = value;
  return el("label", { class: "named" }, `${label} `, select);
}

function pills(legend, options, value, onchange) {
  const group = `group-${++names}`;
  const inputs = options.map(([key, text]) => {
    const input = el("input", { type: "radio", name: group, value: key, onchange: () => onchange(key) });
    input.checked = key === value;
    return el("label", { class: "pill" }, input, el("span", {}, text));
  });
  return el("fieldset", {}, el("legend", {}, legend), ...inputs);
}

// ---- Numbers, colours, packed text ----------------------------------------------------------------------------------

const number = (x, digits = 3) => (typeof x === "number" && Number.isFinite(x) ? x.toFixed(digits) : "–");
const signed = (x) => (typeof x === "number" ? (x < 0 ? "−" : "+") + Math.abs(x).toFixed(3) : "–");
const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const DIGIT = Object.fromEntries([...ALPHABET].map((letter, i) => [letter, i]));

function unpack(text, width = 2) {
  const out = [];
  for (let i = 0; i + width <= text.length; i += width) {
    let value = 0;
    for (let j = 0; j < width; j++) value = 64 * value + DIGIT[text[i + j]];
    out.push(value);
  }
  return out;
}

// Both rise evenly in luminance, so that they survive greyscale and colour blindness.
const MAPS = {
  viridis: ["440154", "482878", "3e4989", "31688e", "26828e", "1f9e89", "35b779", "6ece58", "b5de2b", "fde725"],
  cividis: ["00224e", "123570", "3b496c", "575d6d", "707173", "8a8678", "a59c74", "c3b369", "e1cc55", "fee838"],
};
const parts = (hex) => [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16));

function colour(map, share) {
  const stops = MAPS[map];
  const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(place), stops.length - 2);
  const [a, b] = [parts(stops[low]), parts(stops[low + 1])];
  return a.map((x, i) => Math.round(x + (b[i] - x) * (place - low)));
}

/** One pixel for each cell; the browser enlarges it without smoothing. */
function paint(canvas, panel, values, low, high, map) {
  canvas.width = panel.columns;
  canvas.height = panel.rows;
  const picture = new ImageData(panel.columns, panel.rows);
  values.forEach((value, cell) => {
    if (value === null || value === undefined || cell >= panel.rows * panel.columns) return;
    const rgb = colour(map, high > low ? (value - low) / (high - low) : 0.5);
    picture.data.set([...rgb, 255], 4 * cell);
  });
  canvas.getContext("2d").putImageData(picture, 0, 0);
}

const squares = (cells, columns) => cells.map((c) => `M${c % columns} ${Math.floor(c / columns)}h1v1h-1z`).join("");
const spread = (values) => {
  const seen = values.filter((x) => typeof x === "number");
  return seen.length ? [Math.min(...seen), Math.max(...seen)] : [0, 1];
};
const place = (panel, cell) =>
  cell >= panel.rows * panel.columns ? "the end of the episode" : `row ${Math.floor(cell / panel.columns)}, column ${cell % panel.columns}`;

// ---- Claims ---------------------------------------------------------------------------------------------------------

function claimText(value) {
  if (value === null || value === undefined || value === 0) return value === 0 ? "0" : "";
  if (typeof value === "number") return number(value, 4);
  if (typeof value === "object" && "median" in value)
    return value.min === value.max ? number(value.median, 4) : `${number(value.median, 4)} (${number(value.min, 4)} to ${number(value.max, 4)})`;
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function showClaims() {
  if (!data.claims.length) return;
  const shown = data.claims.filter((claim) => claim.shown === true).length;
  const columns = ["figure", "claim", "criterion", "exact", "learned", "seeds"];
  const rows = data.claims.map((claim) => el("tr", {},
    ...columns.map((name) => el("td", { "data-label": name === "claim" || claimText(claim[name]) === "" ? null : name }, claimText(claim[name]).replace(/\.0000$/, ""))),
    el("td", { class: claim.shown === true ? "yes" : "no" }, claim.shown === true ? "✓ shown" : "✗ not shown")));
  section("Claims", "The paper's statements, what counts as shown, and what was found; learned values are the median and the range over seeds.").append(
    el("p", {}, `${shown} of ${data.claims.length} claims are shown.`),
    el("table", { class: "claims" }, el("thead", {}, el("tr", {}, ...[...columns, "outcome"].map((c) => el("th", { scope: "col" }, c)))), el("tbody", {}, ...rows)));
}

// ---- Landscapes -----------------------------------------------------------------------------------------------------

const SIGNS = { key: "k", door: "d", box: "b", lava: "l", goal: "G", start: "S", hole: "H" };

/** A map with its walls, a colour bar, and an overlay for the cursor, the start, the goal and the plan. */
function mapOf(panel, title, unit, explorer) {
  const canvas = el("canvas", {});
  const marks = panel.marks.map(([kind, row, column]) => svg("text", { x: column + 0.5, y: row + 0.5 }, SIGNS[kind] || kind));
  const overlay = svg("g", {});
  const scene = svg("svg", { viewBox: `0 0 ${panel.columns} ${panel.rows}`, "aria-hidden": "true" },
    svg("path", { class: "wall", d: squares(panel.walls, panel.columns) }), ...marks, overlay);
  const plane = el("div", { class: "plane", tabindex: 0, role: "application", "aria-roledescription": "map",
    "aria-label": `${title}, ${panel.name}. Arrow keys move, Enter sets the start, G sets the goal, Escape clears it.` }, canvas, scene);
  plane.style.aspectRatio = `${panel.columns} / ${panel.rows}`;
  const [low, high, ramp] = [el("span", {}), el("span", {}), el("i", {})];
  const root = el("figure", {}, el("figcaption", {}, title), plane, el("div", { class: "legend" }, low, ramp, high, el("b", {}, unit)));
  listen(plane, panel, explorer);
  return { root, overlay, plane, show(values, from, to, map) {
    paint(canvas, panel, values, from, to, map);
    ramp.style.background = `linear-gradient(to right, ${MAPS[map].map((c) => `#${c}`).join(", ")})`;
    const digits = to - from < 0.2 ? 3 : 2;
    low.textContent = from < 0 ? `−${number(-from, digits)}` : number(from, digits);
    high.textContent = from < 0 ? `+${number(to, digits)}` : number(to, digits);
  } };
}

function listen(plane, panel, explorer) {
  const cellAt = (event) => {
    const box = plane.getBoundingClientRect();
    const column = Math.floor(((event.clientX - box.left) / box.width) * panel.columns);
    const row = Math.floor(((event.clientY - box.top) / box.height) * panel.rows);
    return row * panel.columns + column;
  };
  plane.addEventListener("pointermove", (event) => explorer.hover(cellAt(event)));
  plane.addEventListener("pointerleave", () => explorer.hover(null));
  plane.addEventListener("focus", () => explorer.hover(explorer.cursor ?? explorer.start));
  plane.addEventListener("click", (event) => explorer.pick(cellAt(event), event.shiftKey));
  plane.addEventListener("keydown", (event) => {
    const step = { ArrowUp: -panel.columns, ArrowDown: panel.columns, ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) explorer.walk(step);
    else if (event.key === "Enter" || event.key === " ") explorer.pick(explorer.cursor, event.shiftKey);
    else if (event.key === "g" || event.key === "G") explorer.pick(explorer.cursor, true);
    else if (event.key === "Escape") explorer.clear();
    else return;
    event.preventDefault();
  });
}

class Explorer {
  constructor(panel, root, run = 0) {
    Object.assign(this, { panel, root, run, view: "all", mode: "start", cursor: null, goal: null });
    this.index = new Map(panel.cells.map((cell, i) => [cell, i]));
    const values = panel.exact || panel.learned[0].nats;
    this.start = panel.cells[values.indexOf(Math.max(...values))];
    this.build();
    this.drawLandscapes();
    this.drawFutures();
  }

  build() {
    const { panel } = this;
    this.maps = {};
    if (panel.exact) this.maps.exact = mapOf(panel, "Exact", "empowerment (nats)", this);
    if (panel.learned.length) this.maps.learned = mapOf(panel, "Learned, ψ/β", "empowerment (nats)", this);
    if (panel.exact && panel.learned.length) this.maps.difference = mapOf(panel, "Learned − exact", "difference (nats)", this);
    this.ends = {};
    if (panel.ends?.exact) this.ends.exact = mapOf(panel, "Ends of the exact source", "probability", this);
    if (panel.ends?.learned) this.ends.learned = mapOf(panel, "Ends of the learned source", "probability", this);
    this.readout = el("output", { class: "readout", "aria-live": "polite" });
    this.plan = el("p", { class: "plan", "aria-live": "polite" });
    this.source = el("p", { class: "source", "aria-live": "polite" });
    this.fit = el("p", { class: "fit note" });
    this.scatter = el("figure", {});
    this.heading = el("h3", {});
    this.top = el("div", { class: "maps landscapes" }, ...Object.values(this.maps).map((map) => map.root));
    const below = el("div", { class: "maps futures" }, ...Object.values(this.ends).map((map) => map.root), this.scatter);
    this.root.replaceChildren(this.tools(), this.readout, this.top, this.fit,
      this.heading, this.source, this.plan, below);
  }

  tools() {
    const { panel } = this;
    const views = [["all", "side by side"], ...Object.keys(this.maps).map((name) => [name, name])];
    const runs = panel.learned.map((run, i) => [String(i), run.seed === null || run.seed === undefined ? run.run : `${run.seed} (${run.run})`]);
    return el("div", { class: "tools" },
      views.length > 2 ? pills("Show", views, this.view, (view) => this.setView(view)) : null,
      panel.plans ? pills("A click sets the", [["start", "start"], ["goal", "goal"]], this.mode, (mode) => { this.mode = mode; }) : null,
      panel.plans ? el("button", { type: "button", class: "clear", onclick: () => this.clear() }, "Clear goal") : null,
      runs.length > 1 ? choose(panel.learned[0].seed === null ? "Estimate" : "Seed", runs, String(this.run), (value) => { this.run = Number(value); this.drawLandscapes(); }) : null);
  }

  setView(view) {
    this.view = view;
    for (const [name, map] of Object.entries(this.maps)) map.root.hidden = view !== "all" && view !== name;
  }

  at(kind, cell) {
    const i = this.index.get(cell);
    if (i === undefined) return null;
    const exact = this.panel.exact ? this.panel.exact[i] : null;
    const learned = this.panel.learned.length ? this.panel.learned[this.run].nats[i] : null;
    return kind === "exact" ? exact : kind === "learned" ? learned : exact === null || learned === null ? null : learned - exact;
  }

  drawLandscapes() {
    const { panel } = this;
    const grid = (kind) => { const out = []; panel.cells.forEach((cell) => { out[cell] = this.at(kind, cell); }); return out; };
    const learned = panel.learned.length ? panel.learned[this.run] : null;
    const [low, high] = spread([...(panel.exact || []), ...(learned ? learned.nats : [])]);
    for (const [kind, map] of Object.entries(this.maps)) {
      const values = grid(kind);
      const most = Math.max(...spread(values).map(Math.abs), 0.01);
      if (kind === "difference") map.show(values, -most, most, "cividis");
      else map.show(values, low, high, "viridis");
    }
    const fit = learned?.fit;
    this.fit.textContent = fit ? `R² ${number(fit.r2, 4)}, Pearson ${number(fit.pearson, 4)}, bias ${signed(fit.bias)} nats, ` +
      `largest error ${number(fit.max_error)} nats; the maximum is ${fit.argmax_agrees ? "in the same place" : "elsewhere"}.` : "";
    this.drawScatter();
    this.drawOverlay();
  }

  drawScatter() {
    const { panel } = this;
    if (!panel.exact || !panel.learned.length) return;
    const learned = panel.learned[this.run].nats;
    const range = spread([...panel.exact, ...learned]);
    const axes = frame({ x: range, y: range, xLabel: "exact (nats)", yLabel: "learned (nats)", width: 320, height: 320, label: "Learned against exact empowerment, one point for each cell" });
    axes.plot.append(svg("line", { class: "rule", x1: axes.x(range[0]), y1: axes.y(range[0]), x2: axes.x(range[1]), y2: axes.y(range[1]) }),
      ...panel.exact.map((x, i) => svg("circle", { class: "dot", cx: axes.x(x), cy: axes.y(learned[i]), r: 3 })));
    this.here = svg("circle", { class: "here", r: 6 });
    axes.plot.append(this.here);
    this.axes = axes;
    this.scatter.replaceChildren(el("figcaption", {}, "Learned against exact, every cell"), axes.root);
  }

  hover(cell) {
    this.cursor = this.index.has(cell) ? cell : cell === null ? null : this.cursor;
    this.drawOverlay();
  }

  walk(step) {
    const { panel } = this;
    let cell = this.cursor ?? this.start;
    for (let i = 0; i < Math.max(panel.rows, panel.columns); i++) {
      const next = cell + step;
      const wraps = Math.abs(step) === 1 && Math.floor(next / panel.columns) !== Math.floor(cell / panel.columns);
      if (wraps || next < 0 || next >= panel.rows * panel.columns) return;
      cell = next;
      if (this.index.has(cell)) return this.hover(cell);
    }
  }

  pick(cell, asGoal) {
    if (cell === null) return;
    if (this.panel.plans && (asGoal || this.mode === "goal")) this.goal = cell;
    else if (this.index.has(cell)) Object.assign(this, { start: cell, goal: null });
    else return;
    this.cursor = this.index.has(cell) ? cell : this.cursor;
    this.drawFutures();
  }

  clear() {
    this.goal = null;
    this.drawFutures();
  }

  drawFutures() {
    const { panel } = this;
    const i = this.index.get(this.start);
    this.heading.textContent = `From ${place(panel, this.start)}`;
    const found = {};
    for (const [kind, map] of Object.entries(this.ends)) {
      const numbers = unpack(panel.ends[kind][i]);
      const shares = [];
      let total = 0;
      for (let j = 0; j < numbers.length; j += 2) { shares[numbers[j]] = numbers[j + 1]; total += numbers[j + 1]; }
      found[kind] = shares.map((x) => x / total);
    }
    const top = Math.max(...Object.values(found).flatMap((shares) => Object.values(shares)), 0);
    for (const [kind, map] of Object.entries(this.ends)) map.show(found[kind], 0, top, "viridis");
    this.source.textContent = Object.keys(found).length ? `After K = ${panel.horizon} actions: ${Object.entries(found).map(([kind, shares]) => this.describe(kind, shares)).join("; ")}.${this.overlap(found)}${this.whose()}` : "Sources and plans are not part of this report.";
    this.showPlan(i);
    this.drawOverlay();
  }

  describe(kind, shares) {
    const cells = Object.entries(shares);
    const [best, share] = cells.reduce((a, b) => (b[1] > a[1] + 1e-9 ? b : a));
    const dead = shares[this.panel.rows * this.panel.columns];
    const even = cells.every(([, other]) => share - other < 1e-3 * share);
    const where = even ? `equally often (${number(100 * share, 1)} % each)` : `most often ${place(this.panel, Number(best))} (${number(100 * share, 1)} %)`;
    return `the ${kind} source ends in ${cells.length} cells, ${where}` +
      (dead && !even && Number(best) < this.panel.rows * this.panel.columns ? `, dead in ${number(100 * dead, 1)} %` : "");
  }

  whose() {
    const [first, ...others] = this.panel.learned;
    return others.length ? ` The learned source and the plans are those of ${first.run}.` : "";
  }

  overlap({ exact, learned }) {
    if (!exact || !learned) return "";
    const cells = new Set([...Object.keys(exact), ...Object.keys(learned)]);
    let apart = 0;
    for (const cell of cells) apart += Math.abs((exact[cell] || 0) - (learned[cell] || 0)) / 2;
    return ` They overlap by ${number(100 * (1 - apart), 0)} % (learned from 500 samples).`;
  }

  showPlan(i) {
    this.route = null;
    if (!this.panel.plans) { this.plan.textContent = ""; return; }
    if (this.goal === null) {
      this.plan.textContent = "Choose a goal (Shift-click, the “goal” button above, or G) to see the decoder’s plan to it.";
      return;
    }
    const goals = unpack(this.panel.goals[i]);
    const size = 1 + 3 * this.panel.horizon;
    const which = goals.indexOf(this.goal);
    if (which < 0) { this.plan.textContent = `${place(this.panel, this.goal)} cannot be reached in ${this.panel.horizon} actions; choose a coloured cell below.`; return; }
    const text = this.panel.plans[i].slice(size * which, size * (which + 1));
    const steps = [];
    for (let j = 1; j < size; j += 3) steps.push({ action: this.panel.actions[DIGIT[text[j]]], cell: unpack(text.slice(j + 1, j + 3))[0] });
    const end = steps[steps.length - 1].cell;
    const outcome = DIGIT[text[0]] ? "it arrives" : end === this.goal ? "it arrives, with other things moved than in the likeliest way there" : `it ends at ${place(this.panel, end)} instead`;
    this.plan.textContent = `The decoder’s plan to ${place(this.panel, this.goal)}: ${steps.map((s) => s.action).join(", ")}; ${outcome}.`;
    this.route = [this.start, ...steps.map((s) => s.cell)].filter((cell) => cell < this.panel.rows * this.panel.columns);
  }

  drawOverlay() {
    const { columns } = this.panel;
    const box = (cell, kind) => { const at = { x: (cell % columns) + 0.08, y: Math.floor(cell / columns) + 0.08, width: 0.84, height: 0.84 }; return [svg("rect", { ...at, class: `under ${kind}` }), svg("rect", { ...at, class: "cursor" })]; };
    const middle = (cell) => [(cell % columns) + 0.5, Math.floor(cell / columns) + 0.5];
    const line = this.route ? this.route.map((cell) => middle(cell).join(" ")).join(" ") : null;
    for (const map of [...Object.values(this.maps), ...Object.values(this.ends)]) {
      const nodes = [];
      if (line) nodes.push(svg("polyline", { class: "route under", points: line }), svg("polyline", { class: "route over", points: line }));
      const [x, y] = middle(this.start);
      nodes.push(svg("circle", { cx: x, cy: y, r: 0.38, fill: "#000" }), svg("circle", { cx: x, cy: y, r: 0.25, fill: "#fff" }));
      if (this.goal !== null) { const [a, b] = middle(this.goal); nodes.push(svg("text", { x: a, y: b, class: "goal" }, "✕")); }
      if (this.cursor !== null) nodes.push(...box(this.cursor, "hover"));
      map.overlay.replaceChildren(...nodes);
    }
    this.announce();
  }

  announce() {
    const cell = this.cursor ?? this.start;
    const texts = ["exact", "learned", "difference"].filter((kind) => this.maps[kind] || (kind === "difference" && this.maps.difference))
      .map((kind) => `${kind} ${kind === "difference" ? signed(this.at(kind, cell)) : number(this.at(kind, cell))}`);
    this.readout.replaceChildren(el("b", {}, place(this.panel, cell)), `: ${texts.join(", ")} nats`);
    if (this.here) {
      this.here.setAttribute("cx", this.axes.x(this.at("exact", cell)));
      this.here.setAttribute("cy", this.axes.y(this.at("learned", cell)));
    }
  }
}

function showLandscapes() {
  if (!data.panels.length) return;
  const hint = "Hover a cell for its values. Click one to see where the source goes from there; Shift-click another for the decoder’s plan to it. With the keyboard: arrows, Enter, G, Escape.";
  const card = el("div", { class: "card explorer" });
  const buttons = data.panels.map((panel, i) => {
    const canvas = el("canvas", { "aria-hidden": "true" });
    const nats = panel.exact || panel.learned[0].nats;
    const values = [];
    panel.cells.forEach((cell, j) => { values[cell] = nats[j]; });
    paint(canvas, panel, values, ...spread(nats), "viridis");
    const r2 = panel.learned[0]?.fit?.r2;
    return el("button", { type: "button", "aria-pressed": String(i === 0), onclick: () => select(i) }, canvas, panel.name,
      el("small", {}, panel.scene || `K = ${panel.horizon}`), typeof r2 === "number" ? el("small", {}, `R² ${number(r2)}`) : null);
  });
  const select = (i, run = 0) => {
    buttons.forEach((button, j) => button.setAttribute("aria-pressed", String(i === j)));
    window.explorer = new Explorer(data.panels[i], card, run);
  };
  window.selectPanel = select;
  section("Landscapes", hint).append(el("div", { class: "gallery", role: "group", "aria-label": "Worlds" }, ...buttons), card);
  select(0);
}

// ---- The benchmark ---------------------------------------------------------------------------------------------------

function showLeaderboard() {
  const board = data.leaderboard;
  if (!board) return;
  const names = Object.keys(board.columns);
  const body = el("tbody", {});
  const heads = names.map((name) => {
    const head = el("th", { scope: "col", "aria-sort": "none" });
    head.append(el("button", { type: "button", class: "sort", onclick: () => sort(name, head) }, board.columns[name]));
    return head;
  });
  const text = (name, value) => (value === null || value === undefined ? "–" : typeof value !== "number" ? String(value)
    : ["seeds", "violations", "steps"].includes(name) ? value.toLocaleString("en") : number(value, name === "processor_seconds" ? 1 : 4));
  const line = (row) => {
    const task = board.drawn.includes(row.task)
      ? el("button", { type: "button", class: "open", title: "Show the estimate beside the truth", onclick: () => openEstimate(row) }, row.task) : row.task;
    return el("tr", {}, ...names.map((name) => (name === "task" ? el("th", { scope: "row" }, task)
      : el("td", { class: name === "estimator" ? null : "number" }, text(name, row[name])))));
  };
  const sort = (name, head) => {
    const up = head.getAttribute("aria-sort") === "descending";
    heads.forEach((other) => other.setAttribute("aria-sort", "none"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const rank = (row) => (row[name] === null || row[name] === undefined ? (up ? Infinity : -Infinity) : row[name]);
    const rows = [...board.rows].sort((a, b) => {
      const [x, y] = [rank(a), rank(b)];
      const order = typeof x === "string" ? x.localeCompare(y) : x - y;
      return up ? order : -order;
    });
    body.replaceChildren(...rows.map(line));
  };
  body.append(...board.rows.map(line));
  section("Leaderboard", "Every estimator on every task, against certified values. Click a column to sort by it, a task to see the estimate beside the truth.").append(
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Leaderboard" }, el("table", { class: "leaderboard" }, el("thead", {}, el("tr", {}, ...heads)), body)));
}

function openEstimate(row) {
  const i = data.panels.findIndex((panel) => panel.name === row.task && panel.learned.some((run) => run.run.startsWith(`${row.estimator}, `)));
  if (i < 0) return;
  window.selectPanel(i, data.panels[i].learned.findIndex((run) => run.run.startsWith(`${row.estimator}, `)));
  document.querySelector(".explorer").scrollIntoView({ block: "start" });
}

// ---- Charts ---------------------------------------------------------------------------------------------------------

const STROKES = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];
const DASHES = ["", "7 3", "2 3", "9 3 2 3", "4 4", "1 2"];

function ticks(low, high, count = 5) {
  const raw = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
  const out = [];
  for (let x = Math.ceil(low / step - 1e-9) * step; x <= high + 1e-9 * step; x += step) out.push(Number(x.toPrecision(10)));
  return out;
}

/** Axes with ticks and labels; `log` makes the vertical one logarithmic. */
function frame({ x, y, xLabel, yLabel, title, width = 420, height = 240, log = false, label }) {
  const pad = { left: 52, right: 12, top: title ? 24 : 10, bottom: 40 };
  const lift = log ? Math.log10 : (v) => v;
  const margin = (lift(y[1]) - lift(y[0])) * 0.05 || 0.5;
  const [low, high] = [lift(y[0]) - margin, lift(y[1]) + margin];
  const across = x[1] > x[0] ? x[1] - x[0] : 1;
  const toX = (v) => pad.left + ((v - x[0]) / across) * (width - pad.left - pad.right);
  const toY = (v) => height - pad.bottom - ((lift(v) - low) / (high - low)) * (height - pad.top - pad.bottom);
  const tidy = (v) => (Math.abs(v) >= 1000 ? `${v / 1000}k` : String(v));
  const vertical = log ? logTicks(low, high) : ticks(low, high, 4);
  const plot = svg("g", {});
  const root = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label || title },
    ...vertical.flatMap((v) => [svg("line", { class: "grid", x1: pad.left, x2: width - pad.right, y1: toY(v), y2: toY(v) }), svg("text", { x: pad.left - 6, y: toY(v) + 4, "text-anchor": "end" }, tidy(v))]),
    ...ticks(x[0], x[1]).flatMap((v) => [svg("line", { class: "axis", x1: toX(v), x2: toX(v), y1: height - pad.bottom, y2: height - pad.bottom + 4 }), svg("text", { x: toX(v), y: height - pad.bottom + 16, "text-anchor": "middle" }, tidy(v))]),
    svg("path", { class: "axis", d: `M${pad.left} ${pad.top}V${height - pad.bottom}H${width - pad.right}` }),
    svg("text", { x: (pad.left + width - pad.right) / 2, y: height - 6, "text-anchor": "middle" }, xLabel),
    svg("text", { transform: `translate(13 ${(pad.top + height - pad.bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, yLabel),
    title ? svg("text", { class: "title", x: pad.left, y: 14 }, title) : null, plot);
  return { root, plot, x: toX, y: toY, pad, width, height };
}

function logTicks(low, high) {
  const out = [];
  for (let e = Math.floor(low); e <= Math.ceil(high); e++)
    for (const m of high - low > 2.5 ? [1] : [1, 2, 5]) if (Math.log10(m) + e >= low && Math.log10(m) + e <= high) out.push(Number((m * 10 ** e).toPrecision(3)));
  return out;
}

function lines(runs, key, options) {
  const good = runs.map((run) => run.updates.map((u, i) => [u, run[key][i]]).filter(([, y]) => Number.isFinite(y) && (!options.log || y > 0)));
  const all = good.flat();
  if (!all.length) return null;
  const axes = frame({ ...options, x: [0, spread(all.map((p) => p[0]))[1]], y: spread(all.map((p) => p[1])) });
  good.forEach((points, i) => axes.plot.append(svg("polyline", { class: "series", stroke: STROKES[i % 6], "stroke-dasharray": DASHES[i % 6] || null, points: points.map(([a, b]) => `${axes.x(a)},${axes.y(b)}`).join(" ") }),
    ...(points.length > 3 ? [] : points.map(([a, b]) => svg("circle", { cx: axes.x(a), cy: axes.y(b), r: 3.5, fill: STROKES[i % 6] })))));
  const last = good.map((points) => points[points.length - 1]?.[1]);
  return el("figure", {}, axes.root, el("ul", { class: "keys" }, ...runs.map((run, i) => el("li", {},
    svg("svg", { viewBox: "0 0 30 8", "aria-hidden": "true" }, svg("line", { x1: 0, x2: 30, y1: 4, y2: 4, stroke: STROKES[i % 6], "stroke-width": 2.5, "stroke-dasharray": DASHES[i % 6] || null })),
    `${run.seed === null || run.seed === undefined ? run.run : `seed ${run.seed}`}: ${number(last[i])} at the end`))));
}

function showCurves() {
  if (!data.curves.length) return;
  const charts = data.curves.flatMap((world) => [
    lines(world.runs, "bound", { title: `${world.name}, K = ${world.horizon}: bound`, xLabel: "updates", yLabel: "bound (nats)" }),
    lines(world.runs, "source_loss", { title: `${world.name}, K = ${world.horizon}: source loss`, xLabel: "updates", yLabel: "loss (nats²)", log: true }),
  ]);
  section("Training", "The variational bound over the mini-batches, and the squared error of source and ψ, for every seed.").append(
    el("div", { class: "charts" }, ...charts.filter(Boolean)));
}

// ---- Episodes -------------------------------------------------------------------------------------------------------

const SHORT = { up: "↑", down: "↓", left: "←", right: "→", stay: "•", "pick up": "pick" };
const short = (name) => (name.startsWith("brick ") ? `▪${SHORT[name.slice(6)] || name.slice(6)}` : SHORT[name] || name.slice(0, 6));

class Player {
  constructor(episode, root) {
    Object.assign(this, { episode, root, time: 0, timer: null, speed: 4 });
    this.last = episode.chosen.length;
    this.build();
    this.draw();
  }

  build() {
    const [rows, columns] = this.episode.shape;
    this.canvas = el("canvas", { width: columns, height: rows });
    this.trace = svg("g", {});
    const plane = el("div", { class: "plane still", role: "img", "aria-label": `${this.episode.world} as the agent sees it` }, this.canvas, svg("svg", { viewBox: `0 0 ${columns} ${rows}` }, this.trace));
    plane.style.aspectRatio = `${columns} / ${rows}`;
    plane.style.width = `min(100%, ${Math.min(26, (22 * columns) / rows)}rem)`;
    const button = (label, text, onclick, extra) => el("button", { type: "button", "aria-label": label, title: label, onclick, class: extra }, text);
    this.toggle = button("Play", "▶ play", () => this.play(this.timer === null), "toggle");
    this.slider = el("input", { type: "range", min: 0, max: this.last, step: 1, "aria-label": "Step", oninput: () => this.go(Number(this.slider.value)) });
    this.said = el("output", { class: "readout said" });
    this.bars = el("figure", { class: "bars" });
    this.line = el("figure", {});
    const controls = el("div", { class: "controls" }, button("To the start", "|◀", () => this.go(0)), button("One step back", "◀", () => this.go(this.time - 1), "back"),
      this.toggle, button("One step on", "▶", () => this.go(this.time + 1), "on"), this.slider,
      choose("Steps a second", [["1", "1"], ["4", "4"], ["12", "12"]], "4", (v) => { this.speed = Number(v); if (this.timer !== null) this.play(true); }));
    this.root.replaceChildren(el("div", { class: "player", tabindex: 0, role: "group", "aria-label": "Episode. Space plays and pauses, left and right step.", onkeydown: (event) => this.key(event) },
      el("figure", {}, plane), el("div", {}, this.said, this.bars, this.line)), controls);
    this.drawLine();
  }

  key(event) {
    if (event.key === " ") this.play(this.timer === null);
    else if (event.key === "ArrowLeft") this.go(this.time - 1);
    else if (event.key === "ArrowRight") this.go(this.time + 1);
    else return;
    event.preventDefault();
  }

  play(on) {
    clearInterval(this.timer);
    this.timer = null;
    if (on) {
      if (this.time === this.last) this.go(0, true);
      this.timer = setInterval(() => { this.go(this.time + 1, true); if (this.time === this.last) this.play(false); }, 1000 / this.speed);
    }
    this.toggle.textContent = on ? "⏸ pause" : "▶ play";
    this.toggle.setAttribute("aria-label", on ? "Pause" : "Play");
  }

  go(time, playing = false) {
    if (!playing) this.play(false);
    this.time = Math.min(Math.max(time, 0), this.last);
    this.draw();
  }

  draw() {
    const { episode, time } = this;
    const picture = new ImageData(episode.shape[1], episode.shape[0]);
    unpack(episode.frames[time], episode.palette.length <= 64 ? 1 : 2).forEach((c, i) => picture.data.set([...parts(String(episode.palette[c]).slice(1)), 255], 4 * i));
    this.canvas.getContext("2d").putImageData(picture, 0, 0);
    if (episode.path) {
      const points = episode.path.slice(0, time + 1).map(([row, column]) => `${column + 0.5} ${row + 0.5}`).join(" ");
      this.trace.replaceChildren(svg("polyline", { points, fill: "none", stroke: "#000", "stroke-width": 0.12, "stroke-opacity": 0.75, "stroke-linejoin": "round" }));
    }
    this.slider.value = time;
    const value = episode.empowerment[time];
    const done = time === this.last;
    const fate = episode.alive ? `alive${typeof episode.reachable_cells === "number" ? `, ${episode.reachable_cells} cells within reach` : ""}` : "dead";
    this.said.replaceChildren(el("b", {}, `step ${time} of ${this.last}`), `: ${number(value)} nats; ${done ? `the end, ${fate}` : `next: ${episode.actions[episode.chosen[time]]}`}`);
    this.drawBars();
    if (this.rule) for (const name of ["x1", "x2"]) this.rule.setAttribute(name, this.axes.x(time));
  }

  drawBars() {
    const { episode, time } = this;
    if (!episode.expected || time === this.last) return this.bars.replaceChildren(el("figcaption", {}, episode.expected ? "The episode is over." : "This behaviour compares no actions one step ahead."));
    const row = episode.expected[time];
    const [low, high] = spread(episode.expected.flat());
    const base = Math.min(low, 0);
    const axes = frame({ x: [-0.6, row.length - 0.4], y: [base, Math.max(high, base + 0.1)], xLabel: "action", yLabel: "expected (nats)", width: 440, height: 210, label: `Expected empowerment of every action; chosen: ${episode.actions[episode.chosen[time]]}` });
    axes.root.querySelectorAll("line.axis, line.axis + text").forEach((node) => node.remove());
    row.forEach((value, a) => {
      const chosen = a === episode.chosen[time];
      const [left, right] = [axes.x(a - 0.38), axes.x(a + 0.38)];
      if (typeof value === "number") axes.plot.append(svg("rect", { class: chosen ? "bar chosen" : "bar", x: left, width: right - left, y: axes.y(Math.max(value, 0)), height: Math.max(Math.abs(axes.y(value) - axes.y(0)), 0.5) }, svg("title", {}, `${episode.actions[a]}: ${number(value)} nats`)));
      if (chosen) axes.plot.append(svg("text", { class: "chosen-mark", x: axes.x(a), y: Math.max(axes.y(Math.max(value ?? 0, 0)) - 3, 10), "text-anchor": "middle" }, "▼"));
      axes.plot.append(svg("text", { x: axes.x(a), y: axes.height - axes.pad.bottom + 15, "text-anchor": "middle" }, short(String(episode.actions[a]))));
    });
    const bricks = episode.actions.some((name) => String(name).startsWith("brick"));
    this.bars.replaceChildren(axes.root, el("figcaption", {}, `Expected empowerment of every action; ▼ the chosen one${bricks ? "; ▪ lays a brick" : ""}.`));
  }

  drawLine() {
    const values = this.episode.empowerment;
    const axes = frame({ x: [0, this.last], y: spread(values), xLabel: "step", yLabel: "empowerment (nats)", width: 440, height: 170, label: "Empowerment at every step" });
    this.rule = svg("line", { class: "rule", y1: axes.pad.top, y2: axes.height - axes.pad.bottom });
    axes.plot.append(svg("polyline", { class: "series", stroke: "#0072b2", points: values.map((v, t) => `${axes.x(t)},${axes.y(v)}`).join(" ") }), this.rule);
    this.axes = axes;
    this.line.replaceChildren(axes.root);
  }
}

function showEpisodes() {
  if (!data.episodes.length) return;
  const card = el("div", { class: "card episode" });
  const titles = data.episodes.map((episode, i) => [String(i), String(episode.title)]);
  let player = null;
  const select = (i) => { if (player) player.play(false); player = new Player(data.episodes[Number(i)], card); };
  section("Episodes", "Played step by step, with what was expected of every action.").append(
    el("div", { class: "tools" }, choose("Episode", titles, "0", select)), card);
  select(0);
}

// ---- Figures, tables, settings --------------------------------------------------------------------------------------

function showPictures() {
  if (!data.pictures.length) return;
  section("Figures").append(el("div", { class: "figures" }, ...data.pictures.map((picture) => el("figure", {},
    el("img", { src: `data:image/png;base64,${picture.png}`, alt: picture.caption || picture.name }),
    el("figcaption", {}, picture.caption ? `${picture.name}: ${picture.caption}` : picture.name)))));
}

function showTables() {
  if (!data.tables.length) return;
  section("Numbers").append(...data.tables.map((table) => el("details", {}, el("summary", {}, `${table.name}.csv`), el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": table.name },
    el("table", {}, el("thead", {}, el("tr", {}, ...(table.rows[0] || []).map((cell) => el("th", { scope: "col" }, cell)))),
      el("tbody", {}, ...table.rows.slice(1).map((row) => el("tr", {}, ...row.map((cell) => el("td", {}, cell))))))), table.cut ? el("p", { class: "note" }, "More rows are in the file.") : null)));
}

function listing(facts) {
  const rows = Object.entries(facts).flatMap(([name, value]) => [el("dt", {}, name.replaceAll("_", " ")),
    el("dd", {}, value !== null && typeof value === "object" ? (Array.isArray(value) && value.every((v) => typeof v !== "object") ? value.join(", ") : listing(value)) : String(value))]);
  return el("dl", {}, ...rows);
}

function showSettings() {
  const node = section("Settings", "What gave these numbers: settings, seeds, versions, commit, machine, time.");
  node.append(...data.numbers.map((x) => el("details", {}, el("summary", {}, `Figure ${x.figure}`), listing(x))));
  node.append(...data.runs.map((run) => el("details", {}, el("summary", {}, `Run ${run.run}: ${run.world}, seed ${run.facts.seed}`),
    listing({ seed: run.facts.seed, settings: run.facts.config, versions: run.facts.versions || {} }))));
  if (data.notes.length) node.append(el("h3", {}, "Notes"), el("ul", { class: "note" }, ...data.notes.map((text) => el("li", {}, text))));
}

// ---- The page -------------------------------------------------------------------------------------------------------

const dark = () => (document.documentElement.style.colorScheme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
const theme = document.getElementById("theme");
const nameTheme = () => { theme.lastElementChild.textContent = dark() ? "light" : "dark"; };
theme.addEventListener("click", () => { document.documentElement.style.colorScheme = dark() ? "light" : "dark"; nameTheme(); });
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((node) => { node.open = true; }));
nameTheme();

document.title = `Empowerment: ${data.name}`;
document.getElementById("made").textContent = `${data.name} · empowerment ${data.made.version}, Python ${data.made.python}, ${data.made.date}`;
for (const show of [showClaims, showLeaderboard, showLandscapes, showEpisodes, showCurves, showPictures, showTables, showSettings]) show();
