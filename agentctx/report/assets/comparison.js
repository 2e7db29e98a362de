"use strict";
/* Many sessions, each through several pipelines: sums, cost against what stays visible, and each session. */

const SHOWN_AT_ONCE = 300;
const DOTS = ["--way-prepared", "--way-trimmed", "--assistant", "--recap", "--way-billed", "--results", "--system", "--other", "--added", "--dropped"];

const share = (part, whole) => (whole ? part / whole : null);
const percent = (value) => `${(100 * value).toFixed(1)}%`;
const dollars = (value) => {
  const digits = value < 1 ? 4 : 2;
  return `$${value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits })}`;
};
const whole = (value) => Math.round(value).toLocaleString("en");

/* What is told of rows that are added up: name, value, as text, and whether little of it is good, or much. */
const NUMBERS = [
  ["input cost", (sum) => sum.usd, dollars, "low"],
  ["visible", (sum) => share(sum.visible, sum.values), percent, "high"],
  ["visible or recalled", (sum) => share(sum.visible + sum.recallable, sum.values), percent, "high"],
  ["user's words", (sum) => share(sum.kept, sum.said), percent, "high"],
  ["cached", (sum) => share(sum.prefix_tokens, sum.tokens_sent), percent, "high"],
  ["tokens sent", (sum) => sum.tokens_sent, whole, "low"],
  ["compactions", (sum) => sum.compactions, whole, ""],
  ["refused", (sum) => sum.invalid, whole, "low"],
  ["too large", (sum) => sum.overflowed, whole, "low"],
  ["ms a call", (sum) => share(1000 * sum.seconds, sum.calls), (value) => value.toFixed(1), "low"],
];

function added(data, rows) {
  const sum = {};
  data.numbers.forEach((name, place) => {
    const values = rows.map((row) => row[place]);
    sum[name] = values.includes(null) ? null : values.reduce((one, other) => one + other, 0);
  });
  return sum;
}

function cell(name, text, className) {
  const made = document.createElement(name);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

/* A table whose headings sort it: columns with a name, the value of a line, its text, and what is good. */
class SortedTable {
  constructor(table, first, columns) {
    this.table = table;
    this.columns = columns;
    this.order = null; // or the column that is sorted by, -1 for the names, and whether the largest stand first
    const head = table.createTHead().insertRow();
    [first, ...columns.map(([name]) => name)].forEach((name, place) => {
      const heading = document.createElement("th");
      heading.scope = "col";
      const button = cell("button", name, "heading");
      button.type = "button";
      button.addEventListener("click", () => {
        this.order = { column: place - 1, down: this.order?.column === place - 1 && !this.order.down };
        this.fill(this.lines);
      });
      heading.append(button);
      head.append(heading);
    });
    this.body = table.createTBody();
  }

  fill(lines, most = SHOWN_AT_ONCE) {
    this.lines = lines;
    const { column, down } = this.order ?? {};
    const value = column === -1 ? (line) => line.name : this.columns[column]?.[1];
    const sorted = value ? [...lines].sort((one, other) => this.compare(value(one), value(other)) * (down ? -1 : 1)) : lines;
    [...this.table.tHead.rows[0].cells].forEach((heading, place) =>
      heading.setAttribute("aria-sort", place - 1 === column ? (down ? "descending" : "ascending") : "none"));
    const made = document.createDocumentFragment();
    for (const line of sorted.slice(0, most)) made.append(this.row(line, lines));
    this.body.replaceChildren(made);
  }

  compare(one, other) {
    if (one === null || other === null) return (one === null) - (other === null);
    return typeof one === "string" ? one.localeCompare(other) : one - other;
  }

  row(line, lines) {
    const row = document.createElement("tr");
    const name = cell("th", line.name);
    name.scope = "row";
    if (line.title) name.title = line.title;
    if (line.ink) {
      const dot = cell("span", "", line.overflowed ? "dot ring" : "dot");
      dot.style.background = dot.style.borderColor = `var(${line.ink})`;
      name.prepend(dot);
    }
    row.append(name);
    for (const [, value, text, good] of this.columns) {
      const found = value(line);
      const made = cell("td", found === null || found === undefined ? "-" : text(found));
      const rank = this.rank(found, good, line, lines, value);
      if (rank) made.classList.add(rank);
      row.append(made);
    }
    return row;
  }

  rank() {
    return "";
  }
}

/* Whether a value is the best of those that it competes with: not of one, and not where all are the same. */
function best(found, good, values) {
  const all = values.filter((each) => each !== null);
  if (!good || found === null || all.length < 2 || Math.min(...all) === Math.max(...all)) return "";
  return found === (good === "low" ? Math.min(...all) : Math.max(...all)) ? "best" : "";
}

/* The best of a column, of the pipelines with which every request fits. */
class Sums extends SortedTable {
  rank(found, good, line, lines, value) {
    if (line.overflowed) return "unfit";
    return best(found, good, lines.filter((each) => !each.overflowed).map(value));
  }
}

/* The best of a line, of the pipelines with which every request fits. */
class Each extends SortedTable {
  rank(found, good, line, _lines, value) {
    const fitting = this.columns.filter((_, place) => line.sums[place] && !line.sums[place].overflowed);
    const there = this.columns.findIndex((column) => column[1] === value);
    if (line.sums[there]?.overflowed) return "unfit";
    return best(found, good, fitting.map((column) => column[1](line)));
  }
}

/* A dot for each pipeline: what its input costs, and what of the values that later calls used is visible. */
class Scatter {
  constructor(place) {
    this.place = place;
    this.dots = [];
    new ResizeObserver(() => this.show()).observe(place);
  }

  /* Take the sums of pipelines. */
  of(lines) {
    this.dots = lines.map((line) => ({ name: line.name, x: NUMBERS[0][1](line), y: NUMBERS[1][1](line), ink: line.ink, ring: line.overflowed > 0 }));
    this.unit = this.dots.every((dot) => dot.x !== null) ? "USD" : "tokens";
    if (this.unit === "tokens") this.dots.forEach((dot, number) => (dot.x = lines[number].tokens_sent));
    this.dots = this.dots.filter((dot) => dot.y !== null);
    this.show();
  }

  show() {
    this.plot?.destroy();
    this.plot = null;
    this.place.textContent = "";
    if (!this.dots.length) {
      this.place.textContent = "No call took a value from what stood before it.";
      return;
    }
    const sorted = [...this.dots].sort((one, other) => one.x - other.x);
    const ink = colour("--soft"), grid = { stroke: colour("--grid"), width: 1 }, font = "12px system-ui, sans-serif";
    const axis = { stroke: ink, grid, ticks: { ...grid, size: 5 }, font, labelFont: font, labelSize: 18, gap: 6 };
    const cheapest = sorted[0].x, dearest = sorted[sorted.length - 1].x, spread = dearest - cheapest || dearest || 1;
    const lowest = Math.min(...sorted.map((dot) => dot.y));
    this.plot = new uPlot({
      width: roomFor(this.place), height: CHART_HEIGHT, legend: { show: false }, cursor: { show: false }, padding: [16, 24, 0, 0],
      scales: {
        x: { time: false, range: [Math.max(0, cheapest - 0.35 * spread), dearest + 0.35 * spread] },
        y: { range: [Math.max(0, lowest - 0.25 * (1 - lowest) - 0.01), 1 + 0.08 * (1.02 - lowest)] },
      },
      axes: [
        { ...axis, label: this.unit === "USD" ? "input cost, US dollars" : "tokens sent", size: 30, space: 80, values: (_plot, at) => at.map((each) => (this.unit === "USD" ? `$${+each.toFixed(3)}` : compact(each))) },
        { ...axis, label: "values still visible", size: 58, values: (_plot, at) => at.map((each) => (each <= 1 ? `${+(100 * each).toFixed(1)}%` : "")) },
      ],
      series: [{}, { stroke: "transparent", points: { show: false } }],
      hooks: { draw: [(plot) => this.dotted(plot, sorted)] },
    }, [sorted.map((dot) => dot.x), sorted.map((dot) => dot.y)], this.place);
    const told = this.dots.map((dot) => `${dot.name} ${this.unit === "USD" ? money(dot.x, "USD") : compact(dot.x)}, ${percent(dot.y)}${dot.ring ? ", with requests that are too large" : ""}`);
    this.place.setAttribute("aria-label", `Dots: cost against the share of values still visible. ${told.join("; ")}.`);
  }

  /* Dots with names, where there is room for one; the colours stand in the table of sums, too. */
  dotted(plot, dots) {
    const { ctx, bbox } = plot, ratio = devicePixelRatio, size = 5 * ratio, height = 14 * ratio;
    const at = dots.map((dot) => [plot.valToPos(dot.x, "x", true), plot.valToPos(dot.y, "y", true)]);
    const taken = at.map(([x, y]) => [x - size, y - size, x + size, y + size]);
    const free = (box) =>
      box[0] >= bbox.left && box[2] <= bbox.left + bbox.width + 20 * ratio && box[1] >= 0 && box[3] <= bbox.top + bbox.height &&
      !taken.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3]);
    ctx.save();
    ctx.font = `${12 * ratio}px system-ui, sans-serif`;
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    dots.forEach((dot, number) => {
      const [x, y] = at[number], width = ctx.measureText(dot.name).width, beside = 2 * size;
      ctx.fillStyle = ctx.strokeStyle = colour(dot.ink);
      ctx.lineWidth = 2.5 * ratio;
      ctx.beginPath();
      ctx.arc(x, y, dot.ring ? size - ratio : size, 0, 2 * Math.PI);
      if (dot.ring) ctx.stroke();
      else ctx.fill();
      const corners = [[x + beside, y], [x - beside - width, y], [x - width / 2, y - height], [x - width / 2, y + height]];
      const place = corners.find(([left, middle]) => free([left, middle - height / 2, left + width, middle + height / 2]));
      if (!place) return;
      taken.push([place[0], place[1] - height / 2, place[0] + width, place[1] + height / 2]);
      ctx.fillStyle = colour("--ink");
      ctx.fillText(dot.name, ...place);
    });
    ctx.restore();
  }
}

class ComparisonPage {
  constructor(data) {
    const $ = (id) => document.getElementById(id);
    this.data = data;
    this.sums = new Sums($("sums"), "pipeline", NUMBERS);
    this.scatter = new Scatter($("scatter"));
    this.model = null; // or the place of the only one that is shown
    this.addUp();
    data.models.forEach((name, place) => $("model").append(new Option(name, place)));
    $("by-model").hidden = data.models.length < 2;
    $("model").addEventListener("change", () => {
      this.model = $("model").value === "" ? null : Number($("model").value);
      this.addUp();
      this.list();
    });
    this.sessions = data.sessions.map(([name, title, model], place) => ({
      name, title: data.models.length > 1 ? `${title}, ${data.models[model]}` : title, model, sums: data.rows[place].map((row) => (row ? added(data, [row]) : null)),
    }));
    NUMBERS.forEach(([name], place) => $("number").append(new Option(name, place)));
    if (this.lines.every((line) => line.usd === null)) $("number").value = "5";
    this.search = $("search");
    this.found = $("found");
    this.show(Number($("number").value));
    $("number").addEventListener("change", () => this.show(Number($("number").value)));
    this.search.addEventListener("input", () => this.list());
    $("theme").addEventListener("change", () => {
      document.documentElement.dataset.theme = $("theme").value;
      this.scatter.show();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.scatter.show());
    onPaper(() => this.scatter.show());
  }

  /* The sums of the sessions that every pipeline has been through, of all models or of one. */
  addUp() {
    const { data, model } = this;
    const complete = data.rows.filter((row, place) => row.every((each) => each !== null) && (model === null || data.sessions[place][2] === model));
    this.lines = data.pipelines.map((name, place) => ({ name, ink: DOTS[place % DOTS.length], ...added(data, complete.map((row) => row[place])) }));
    this.sums.fill(this.lines);
    this.scatter.of(this.lines);
  }

  show(number) {
    const [, value, text, good] = NUMBERS[number], table = document.getElementById("each");
    table.replaceChildren();
    const columns = this.data.pipelines.map((name, place) => [name, (line) => (line.sums[place] ? value(line.sums[place]) : null), text, good]);
    this.each = new Each(table, "session", columns);
    this.list();
  }

  list() {
    const words = this.search.value.trim().toLowerCase();
    const shown = this.sessions.filter((line) => this.model === null || line.model === this.model);
    const lines = shown.filter((line) => !words || `${line.name} ${line.title}`.toLowerCase().includes(words));
    this.each.fill(lines);
    this.found.textContent = lines.length > SHOWN_AT_ONCE ? `the first ${SHOWN_AT_ONCE} of ${plural(lines.length, "session")}` : plural(lines.length, "session");
  }
}

async function compared() {
  const trouble = document.getElementById("trouble");
  if (!("DecompressionStream" in window)) {
    trouble.hidden = false;
    trouble.textContent = "This browser cannot unpack the page's data: use one of 2023 or later.";
    return;
  }
  window.report = new ComparisonPage(await unpacked(document.getElementById("data")));
  document.body.dataset.ready = "true";
}

requestAnimationFrame(() => setTimeout(compared)); // after the first paint
