"use strict";
/* Ties it together: the chosen call, the filters, what is drawn when. */

const $$ = (id) => document.getElementById(id);

class Page {
  constructor(session) {
    this.session = session;
    this.call = session.count;
    this.waiting = false;
    this.comparing = false;
    this.matches = null;
    const go = (call) => this.go(call);
    this.window = new WindowChart($$("window-chart"), session, go);
    this.cost = new CostChart($$("cost-chart"), session, go);
    this.pane = new MessagePane($$("message"), session, go);
    this.rows = new Rows($$("list"), $$("spacer"), session, (row) => this.read(row));
    this.slider = $$("call");
    this.slider.max = session.count;
    this.slider.value = this.call;
    this.legends();
    this.listen();
    this.paint();
    this.draw();
    this.rows.chooseKey(session.layout(this.call)[1].length ? "a0" : "g0"); // what stands for what is gone, or the task
  }

  listen() {
    const { session } = this;
    this.slider.addEventListener("input", () => this.go(Number(this.slider.value)));
    $$("previous").addEventListener("click", () => this.go(this.call - 1));
    $$("next").addEventListener("click", () => this.go(this.call + 1));
    const cuts = session.compactions();
    $$("previous-cut").addEventListener("click", () => this.go(cuts.findLast((cut) => cut < this.call) ?? this.call));
    $$("next-cut").addEventListener("click", () => this.go(cuts.find((cut) => cut > this.call) ?? this.call));
    document.addEventListener("keydown", (event) => this.press(event));
    $$("history").addEventListener("change", () => {
      this.window.show($$("history").checked);
      this.tellLegends();
    });
    for (const [kind, name] of session.kinds.entries()) {
      if (!session.calls.kinds.some((sizes) => sizes[kind])) continue;
      $$("kind").append(new Option(KIND_NAMES[name], kind));
    }
    let later = 0;
    $$("search").addEventListener("input", () => {
      clearTimeout(later);
      later = setTimeout(() => this.search(), 120);
    });
    for (const id of ["show", "kind"]) $$(id).addEventListener("change", () => this.redraw());
    $$("compare").addEventListener("change", () => this.compare($$("compare").checked));
    $$("base").max = session.count;
    $$("base").addEventListener("input", () => this.compare(true));
    $$("theme").addEventListener("change", () => {
      document.documentElement.dataset.theme = $$("theme").value;
      this.paint();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.paint());
    onPaper(() => {
      this.rows.all(document.body.classList.contains("on-paper"));
      this.paint();
    });
    $$("map").addEventListener("click", (event) => this.pick(event));
    new ResizeObserver(() => this.drawMap()).observe($$("map"));
    $$("numbers").addEventListener("toggle", () => this.fillTable(), { once: true });
  }

  press(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || event.target.closest("input, select, textarea, [role=listbox], .table-side")) return;
    const to = { ArrowLeft: this.call - 1, ArrowRight: this.call + 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.go(to);
  }

  /* Compare with another call, or no longer; of a message first what differs is to be seen. */
  compare(wanted) {
    if (wanted !== this.comparing) this.pane.view = wanted ? "changes" : "sent";
    $$("compare").checked = this.comparing = wanted;
    this.redraw();
  }

  go(call) {
    this.call = Math.max(1, Math.min(this.session.count, call));
    this.redraw();
  }

  /* Draw once before the next frame, however often it is asked for. */
  redraw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.draw();
    });
  }

  paint() {
    this.window.show($$("history").checked);
    this.cost.show();
    this.drawMap();
  }

  draw() {
    const { session, call } = this;
    if (Number(this.slider.value) !== call) this.slider.value = call;
    const typed = this.base(), base = typed || 0;
    $$("base").setAttribute("aria-invalid", Number.isNaN(typed));
    this.tellCall();
    this.tellLegends();
    this.window.mark(call);
    this.cost.mark(call);
    const places = this.places(base);
    this.rows.show(call, places, base);
    this.tellFound(places, base);
    this.drawMap();
    const at = this.rows.at();
    this.pane.show(at < 0 ? null : this.rows.rowAt(at), call, base, this.words());
  }

  /* The call to compare with: 0 for none, NaN where what was typed is no call. */
  base() {
    if (!$$("compare").checked) return 0;
    const typed = $$("base").value.trim(), base = Number(typed);
    if (typed === "" || !Number.isInteger(base) || base < 1 || base > this.session.count) return NaN;
    return base === this.call ? Math.max(1, base - 1) : base;
  }

  words() {
    return $$("search").value.trim();
  }

  search() {
    this.matches = this.words() ? this.session.matching(this.words()) : null;
    this.redraw();
  }

  /* The places of the rows that the filters let through; null for all. */
  places(base) {
    const { session, call, matches } = this, show = $$("show").value, kind = $$("kind").value;
    if (show === "all" && kind === "" && !matches && !base) return null;
    const places = [];
    for (let place = 0, count = session.rows(call); place < count; place++) {
      const row = session.row(call, place);
      if (show === "sent" && !session.sent(row)) continue;
      if (show === "gone" && session.sent(row)) continue;
      if (show === "edited" && row.outcome !== "edited" && row.outcome !== "offloaded") continue;
      if (show === "added" && row.outcome !== "added") continue;
      if (kind !== "" && session.shown(row).kind !== Number(kind)) continue;
      if (matches && !this.matched(row)) continue;
      if (base && !session.change(row, base, call)) continue;
      places.push(place);
    }
    return places;
  }

  matched(row) {
    if (row.head !== undefined) {
      const wanted = this.words().toLowerCase();
      return this.session.data.head[row.head][3].some((part) => part.slice(1).join("\n").toLowerCase().includes(wanted));
    }
    return this.matches.has(row.item) || (row.index !== undefined && this.matches.has(this.session.data.given[row.index]));
  }

  tellFound(places, base) {
    const { session, call, matches } = this;
    let told = plural(places ? places.length : session.rows(call), "row");
    if (base) told += ` differ${places.length === 1 ? "s" : ""} from call ${base}`;
    if (matches && places && !places.length) {
      const first = session.data.given.findIndex((item) => matches.has(item));
      const at = first < 0 ? -1 : session.calls.index.findIndex((seen) => seen > first);
      told = at >= 0 ? `nothing at this call; first at call ${at + 1}` : "nothing found";
      if (at >= 0 && at + 1 === call) told = "nothing among these rows";
    }
    if (Number.isNaN(this.base())) told = `compare with a call from 1 to ${session.count.toLocaleString("en")}`;
    if ($$("found").textContent !== told) $$("found").textContent = told;
  }

  tellCall() {
    const { session, call } = this, { calls } = session, at = call - 1;
    $$("call-number").textContent = `${call.toLocaleString("en")} of ${session.count.toLocaleString("en")}`;
    const share = calls.sent[at] ? calls.prefix[at] / calls.sent[at] : 0;
    const sent = calls.sent[at] ? `${calls.sent[at].toLocaleString("en")} tokens in ${plural(calls.messages[at], "message")} sent` : "nothing sent";
    const line = [
      `${sent}, of ${calls.given[at].toLocaleString("en")} in ${calls.index[at].toLocaleString("en")}`,
      `${Math.round(100 * share)}% unchanged prefix`,
    ];
    if (calls.limit[at] !== null && calls.sent[at]) line.push(`${Math.round((100 * calls.sent[at]) / calls.limit[at])}% of the limit`);
    if (calls.compacted[at]) line.push("compaction");
    if (!calls.fine[at]) line.push((calls.sent[at] ? "not valid, or too large" : "it does not fit"));
    const told = line.join(" · ");
    $$("call-line").textContent = told;
    $$("call-line").classList.toggle("is-bad", !calls.fine[at]);
    this.slider.setAttribute("aria-valuetext", `call ${call} of ${session.count}: ${told}`);
    const notes = session.data.notes[call] ?? [];
    const list = $$("call-notes");
    if (list.notes !== notes) {
      list.notes = notes;
      list.replaceChildren(...(notes.length ? notes : ["nothing newly left out or shortened"]).map((note) => element("li", notes.length ? "" : "quiet", note)));
    }
    const cuts = session.compactions();
    $$("previous").disabled = call <= 1;
    $$("next").disabled = call >= session.count;
    $$("previous-cut").disabled = !cuts.length || cuts[0] >= call;
    $$("next-cut").disabled = !cuts.length || cuts[cuts.length - 1] <= call;
  }

  /* The legends are built once; the numbers in them are those of the chosen call. */
  legends() {
    const { session } = this;
    const entry = (list, colours, name) => {
      const line = element("li");
      const swatch = element("span", `swatch ${colours}`);
      const value = element("span", "value");
      line.append(swatch, element("span", "name", name), value);
      list.append(line);
      return value;
    };
    this.kindValues = session.kinds.map((name, kind) =>
      session.calls.kinds.some((sizes) => sizes[kind]) ? entry($$("window-legend"), `kind-${name}`, KIND_NAMES[name]) : null);
    this.historyValue = entry($$("window-legend"), "way way-everything", "full history");
    const cut = element("li", "mark", `▼ compaction (${session.compactions().length})`);
    $$("window-legend").append(cut);
    const faults = session.faults().length;
    if (faults) $$("window-legend").append(element("li", "mark is-bad", `▮ not sent, or not valid (${faults})`));
    const { window: room, costs } = session.data;
    this.ways = waysOf(costs);
    this.costValues = this.ways.map(([way, name]) => entry($$("cost-legend"), `way way-${way}`, name));
    const over = room === null ? -1 : session.calls.given.findIndex((size) => size > room);
    const said = costs.unit === "USD"
      ? "By the model's prices, answers included; what a request shares with the one before is read from the cache."
      : "The model's prices are not known (--model names it): cached input counts a tenth.";
    const unsent = session.calls.sent.filter((size) => !size).length;
    const free = unsent ? ` What could not be sent (${plural(unsent, "call")}) costs nothing here.` : "";
    $$("cost-note").textContent = said + free + (over >= 0 ? ` From call ${over + 1} on, the full history does not fit the window.` : "");
  }

  tellLegends() {
    const at = this.call - 1, { calls, data } = this.session;
    this.kindValues.forEach((value, kind) => {
      if (value) value.textContent = calls.kinds[at][kind].toLocaleString("en");
    });
    this.historyValue.textContent = calls.given[at].toLocaleString("en");
    this.historyValue.parentElement.hidden = !$$("history").checked;
    this.costValues.forEach((value, way) => (value.textContent = money(data.costs[this.ways[way][0]][at], data.costs.unit)));
  }

  /* The request as a strip: each message as wide as its tokens; the largest request of all fills it. */
  drawMap() {
    const canvas = $$("map"), width = canvas.clientWidth, ratio = devicePixelRatio, height = 30;
    if (!width) return;
    if (canvas.width !== Math.round(width * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const context = canvas.getContext("2d"), { session, call } = this, { calls } = session;
    if (this.theme !== `${document.documentElement.dataset.theme}${matchMedia("(prefers-color-scheme: dark)").matches}`) {
      this.theme = `${document.documentElement.dataset.theme}${matchMedia("(prefers-color-scheme: dark)").matches}`;
      this.colours = session.kinds.map((name) => colour(`--${name}`));
      this.others = { ground: colour("--ground"), cached: colour("--cached"), ink: colour("--ink") };
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.fillStyle = this.others.ground;
    context.fillRect(0, 0, width, 22);
    this.largest ??= Math.max(1, ...calls.sent);
    const scale = width / this.largest;
    let x = 0;
    const strips = [];
    for (let place = 0, count = session.rows(call); place < count && calls.sent[call - 1]; place++) {
      const row = session.row(call, place);
      if (!session.sent(row)) continue;
      const message = session.shown(row), wide = message.tokens * scale;
      context.fillStyle = this.colours[message.kind];
      context.fillRect(x, 0, wide > 2 ? wide - 0.75 : wide, 22);
      if (row.key === this.rows.key) {
        context.fillStyle = this.others.ink;
        context.fillRect(x, 19, Math.max(2, wide), 3);
      }
      strips.push([x + wide, place]);
      x += wide;
    }
    this.strips = strips;
    context.fillStyle = this.others.cached;
    context.fillRect(0, 25, calls.prefix[call - 1] * scale, 4);
  }

  pick(event) {
    const x = event.offsetX, strip = (this.strips ?? []).find(([end]) => x < end);
    if (!strip) return;
    if (this.rows.places && !this.rows.places.includes(strip[1])) {
      $$("show").value = "all";
      $$("kind").value = $$("search").value = "";
      $$("compare").checked = this.comparing = false;
      this.matches = null;
      this.draw();
    }
    this.rows.chooseKey(this.session.row(this.call, strip[1]).key);
  }

  read(row) {
    this.pane.show(row, this.call, this.base() || 0, this.words());
    this.drawMap();
  }

  /* Every number that the charts draw. */
  fillTable() {
    const { session } = this, { calls, data } = session;
    const number = new Intl.NumberFormat("en").format; // made once: there are tens of thousands of numbers
    const columns = [
      ["call", (at) => number(at + 1)],
      ["messages seen", (at) => number(calls.index[at])],
      ["tokens given", (at) => number(calls.given[at])],
      ["tokens sent", (at) => number(calls.sent[at])],
      ["unchanged prefix", (at) => number(calls.prefix[at])],
      ["compaction", (at) => (calls.compacted[at] ? "▼" : "")],
      ...session.kinds.map((name, kind) => [KIND_NAMES[name], (at) => number(calls.kinds[at][kind]), kind]).filter(([, , kind]) => this.kindValues[kind]),
      ...this.ways.map(([way, name]) => [`cost ${name}`, (at) => money(data.costs[way][at], data.costs.unit)]),
    ];
    const table = $$("numbers").querySelector("table");
    const heading = (text) => Object.assign(element("th", "", text), { scope: "col" });
    table.tHead.rows[0].append(...columns.map(([name]) => heading(name)));
    const rows = document.createDocumentFragment();
    for (let at = 0; at < session.count; at++) {
      const line = element("tr");
      line.append(...columns.map(([, text]) => element("td", "", text(at))));
      rows.append(line);
    }
    table.tBodies[0].append(rows);
  }
}

async function begin() {
  const say = (words) => {
    $$("trouble").hidden = false;
    $$("trouble").textContent = words;
  };
  if (!("DecompressionStream" in window)) {
    say("This browser cannot unpack the page's data: use one of 2023 or later.");
    return;
  }
  const session = new Session(await unpacked($$("data")));
  if (!session.count) {
    say("This recording has no model call: there is no prompt to show.");
    document.body.classList.add("is-empty");
    return;
  }
  window.report = new Page(session);
  document.body.dataset.ready = "true";
}

requestAnimationFrame(() => setTimeout(begin)); // after the first paint
