"use strict";
/* The prompt as a list of rows, of which only those in sight are in the document. */

const ROW = 32;
const SPARE = 6;
const PREVIEW = 260;
const MOST_ON_PAPER = 400;

class Rows {
  constructor(list, spacer, session, chosen) {
    this.list = list;
    this.spacer = spacer;
    this.session = session;
    this.chosen = chosen; // called with the row that was chosen
    this.key = null;
    this.places = null; // the places that are shown, or null for all
    this.call = 1;
    this.base = 0;
    this.pool = [];
    this.previews = new Map();
    list.addEventListener("scroll", () => this.render(), { passive: true });
    list.addEventListener("keydown", (event) => this.press(event));
    list.addEventListener("click", (event) => {
      const element = event.target.closest(".row");
      if (element) this.choose(Number(element.dataset.at));
    });
    new ResizeObserver(() => this.render()).observe(list);
  }

  get length() {
    return this.places ? this.places.length : this.session.rows(this.call);
  }

  rowAt(at) {
    return this.session.row(this.call, this.places ? this.places[at] : at);
  }

  /* Show the prompt of a call; who stood at the end of the list stays there. */
  show(call, places, base) {
    const atEnd = this.list.scrollTop > 0 && this.list.scrollTop + this.list.clientHeight >= this.list.scrollHeight - ROW;
    this.call = call;
    this.places = places;
    this.base = base;
    this.spacer.style.height = `${this.length * ROW}px`;
    this.list.toggleAttribute("data-empty", !this.length);
    if (atEnd) this.list.scrollTop = this.length * ROW;
    this.render();
  }

  render() {
    const length = this.length, height = this.list.clientHeight;
    const first = Math.max(0, Math.floor(this.list.scrollTop / ROW) - SPARE);
    const count = Math.max(0, Math.min(length - first, Math.ceil(height / ROW) + 2 * SPARE));
    while (this.pool.length < count) this.pool.push(this.element());
    let active = "";
    this.pool.forEach((element, number) => {
      const inside = number < count;
      if (element.hidden === inside) element.hidden = !inside;
      if (inside && this.fill(element, first + number, length)) active = element.id;
    });
    if (active) this.list.setAttribute("aria-activedescendant", active);
    else this.list.removeAttribute("aria-activedescendant");
  }

  /* Have all rows in the document, as far as paper goes, or only those in sight. */
  all(there) {
    this.list.style.height = there ? `${Math.min(this.length, MOST_ON_PAPER) * ROW}px` : "";
    if (there) this.list.scrollTop = 0;
    this.render();
  }

  element() {
    const element = document.createElement("div");
    element.id = `row-${this.pool.length}`;
    element.setAttribute("role", "option");
    element.cells = ["place", "kind", "words", "stage", "outcome", "tokens", "unseen"].map((name) => {
      const cell = document.createElement("span");
      cell.className = name;
      element.append(cell);
      return cell;
    });
    this.spacer.append(element);
    return element;
  }

  /* Fill an element with a row; whether it is the chosen one. */
  fill(element, at, length) {
    const { session, call } = this, place = this.places ? this.places[at] : at;
    const row = session.row(call, place), message = session.shown(row), chosen = row.key === this.key;
    const cached = session.calls.prefix[call - 1] > 0 && place < session.heads + session.calls.unchanged[call - 1] && session.sent(row);
    let outcome = WORDS[row.outcome];
    if (this.base) outcome = session.change(row, this.base, call) || outcome;
    const mark = `${call}|${this.base}|${row.key}|${row.outcome}|${row.item}|${cached}|${chosen}|${outcome}`;
    if (element.at !== at) {
      element.at = at;
      element.dataset.at = at;
      element.style.transform = `translateY(${at * ROW}px)`;
      element.setAttribute("aria-posinset", at + 1);
    }
    if (element.size !== length) element.setAttribute("aria-setsize", (element.size = length));
    if (element.mark === mark) return chosen;
    element.mark = mark;
    const kind = session.kinds[message.kind];
    element.className = `row is-${row.outcome}${cached ? " is-cached" : ""}${chosen ? " is-chosen" : ""} kind-${kind}`;
    element.setAttribute("aria-selected", chosen);
    const texts = [
      row.index === undefined ? "" : `${row.index}`,
      row.head === undefined ? KIND_NAMES[kind] : kind,
      this.preview(row, message),
      session.why(row).stage,
      row.outcome === "kept" && !this.base ? "" : outcome,
      message.tokens.toLocaleString("en"),
      cached ? " tokens, unchanged since the call before" : " tokens", // for who hears it
    ];
    element.cells.forEach((cell, number) => {
      if (cell.textContent !== texts[number]) cell.textContent = texts[number];
    });
    return chosen;
  }

  preview(row, message) {
    const key = row.head !== undefined ? row.key : row.item >= 0 ? row.item : this.session.data.given[row.index];
    let words = this.previews.get(key);
    if (words === undefined) {
      const said = message.parts.map(([, label, text]) => `${label}${label ? " " : ""}${text.slice(0, PREVIEW)}`);
      words = visible(said.join("  ").slice(0, PREVIEW)).replace(/\s+/g, " ").trim() || (this.session.data.content ? "(nothing)" : "");
      this.previews.set(key, words);
    }
    return words;
  }

  choose(at) {
    if (!this.length) return;
    at = Math.max(0, Math.min(this.length - 1, at));
    const row = this.rowAt(at);
    this.key = row.key;
    const top = at * ROW, { scrollTop, clientHeight } = this.list;
    if (top < scrollTop) this.list.scrollTop = top;
    else if (top + ROW > scrollTop + clientHeight) this.list.scrollTop = top + ROW - clientHeight;
    this.render();
    this.chosen(row);
  }

  /* Choose a row by its key, wherever it stands in the list. */
  chooseKey(key) {
    const place = this.session.find(this.call, key);
    const at = this.places ? this.places.indexOf(place) : place;
    if (at < 0) return;
    this.list.scrollTop = Math.max(0, at * ROW - this.list.clientHeight / 3);
    this.choose(at);
  }

  at() {
    if (this.key === null) return -1;
    const place = this.session.find(this.call, this.key);
    return this.places ? this.places.indexOf(place) : place;
  }

  press(event) {
    const page = Math.max(1, Math.floor(this.list.clientHeight / ROW) - 1);
    const now = this.at();
    const to = { ArrowDown: now + 1, ArrowUp: now - 1, PageDown: now + page, PageUp: now - page, Home: 0, End: this.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    this.choose(to);
  }
}
