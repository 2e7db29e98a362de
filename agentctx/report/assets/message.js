"use strict";
/* One message: what is sent of it, what it was, and the lines that differ. */

const MOST_MARKS = 1000;

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

/* A text with what was searched for marked in it. */
function marked(text, words) {
  const made = document.createDocumentFragment();
  if (!words) {
    made.append(visible(text));
    return made;
  }
  let from = 0, count = 0;
  for (const { 0: found, index } of text.matchAll(new RegExp(words.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"), "giu"))) {
    if (count++ === MOST_MARKS) break;
    made.append(visible(text.slice(from, index)), element("mark", "", visible(found)));
    from = index + found.length;
  }
  made.append(visible(text.slice(from)));
  return made;
}

class MessagePane {
  constructor(place, session, go) {
    this.place = place;
    this.session = session;
    this.go = go;
    this.view = "sent";
    this.mark = "";
  }

  /* Show a row of a call; beside it, if asked for, what it was at the call `base`. */
  show(row, call, base, words) {
    if (!row) {
      this.mark = "";
      this.place.replaceChildren(element("p", "empty", "Choose a message to read it: click it, or press the arrow keys in the list."));
      return;
    }
    const { session } = this;
    const now = session.sent(row) ? session.shown(row) : null;
    const then = base ? session.at(row, base) : session.original(row);
    const mark = JSON.stringify([row, base ? [base, call] : 0, words, this.view]);
    if (mark === this.mark) return;
    this.mark = mark;
    const views = this.views(row, now, then, base);
    const view = views.some(([name]) => name === this.view) ? this.view : views[0][0];
    const made = [this.title(row), this.facts(row, now, session.original(row))];
    if (views.length > 1) made.push(this.tabs(views, view, () => this.show(row, call, base, words)));
    const note = this.note(view, now, then, base, call, words);
    if (note) made.push(element("p", "note", note));
    if (!session.data.content) made.push(element("p", "empty", "This page was made without the messages' texts (--no-content)."));
    else if (view === "changes") made.push(this.changes(then, now));
    else made.push(...this.parts(view === "original" ? then : now ?? session.shown(row), words));
    made.push(this.history(row, call));
    this.place.replaceChildren(...made);
    this.place.scrollTop = 0;
  }

  views(row, now, then, base) {
    if (!this.session.data.content) return [["sent", ""]];
    if (base) return then && now ? [["changes", "Difference"], ["sent", "Now"], ["original", "Then"]] : [["sent", "Now"]];
    if (!now) return [["original", "Original"]];
    const changed = then && row.item !== this.session.data.given[row.index];
    return changed ? [["sent", "As sent"], ["original", "Original"], ["changes", "Difference"]] : [["sent", "As sent"]];
  }

  /* What two calls are compared, or that what was searched for stands in the other of the two texts. */
  note(view, now, then, base, call, words) {
    if (base) return view === "changes" ? `Call ${base} compared with call ${call}.` : "";
    if (view !== "sent" || !words || !now || !then || now === then) return "";
    const says = (message) => message.parts.some((part) => part.slice(1).join("\n").toLowerCase().includes(words.toLowerCase()));
    return says(then) && !says(now) ? "What you search for stands in the original, not in what is sent." : "";
  }

  title(row) {
    const { session } = this, message = session.shown(row);
    const title = element("h3", "", row.head !== undefined ? message.role : row.added !== undefined ? "Put in by the pipeline" : `Message ${row.index}`);
    const kind = element("span", `badge kind-${session.kinds[message.kind]}`, row.head !== undefined ? "head" : KIND_NAMES[session.kinds[message.kind]]);
    title.append(" ", kind, " ", element("span", `badge is-${row.outcome}`, WORDS[row.outcome]));
    return title;
  }

  facts(row, now, original) {
    const { stage, reason } = this.session.why(row);
    const list = element("dl", "what");
    const say = (name, value) => list.append(element("dt", "", name), element("dd", "", value));
    if (stage) say("By", stage);
    if (reason) say("Why", reason);
    const size = (message) => message.tokens.toLocaleString("en");
    if (original && !now) say("Tokens", `${size(original)} → 0`);
    else if (original && now.tokens !== original.tokens) say("Tokens", `${size(original)} → ${size(now)}`);
    else say("Tokens", size(now));
    if (row.handle) say("Original kept as", row.handle);
    return list;
  }

  tabs(views, chosen, again) {
    const tabs = element("div", "tabs");
    tabs.setAttribute("role", "group");
    tabs.setAttribute("aria-label", "What to show of the message");
    for (const [name, words] of views) {
      const button = element("button", "", words);
      button.type = "button";
      button.setAttribute("aria-pressed", name === chosen);
      button.addEventListener("click", () => {
        this.view = name;
        again();
        this.place.querySelector(".tabs [aria-pressed=true]")?.focus();
      });
      tabs.append(button);
    }
    return tabs;
  }

  parts(message, words) {
    return message.parts.map((part) => {
      const box = element("div", "part"), [kind, label] = part;
      const name = KIND_NAMES[this.session.kinds[kind]];
      box.append(element("p", `part-name kind-${this.session.kinds[kind]}`, label ? `${name} · ${label}` : name));
      const text = element("pre");
      text.append(marked(partText(part, this.session.kinds), words));
      box.append(text);
      return box;
    });
  }

  changes(then, now) {
    const text = (message) => message.parts.map((part) => partText(part, this.session.kinds)).join("\n");
    const lines = differences(text(then), text(now));
    const list = element("pre", "difference");
    if (lines.every(([mark]) => mark === "…")) list.append("No line differs.");
    for (const [sign, words] of lines) {
      const line = element(sign === "-" ? "del" : sign === "+" ? "ins" : "span", sign === "…" ? "fold" : "", `${sign} ${visible(words)}\n`);
      list.append(line);
    }
    return list;
  }

  /* What became of the message from call to call, each a way to go there. */
  history(row, call) {
    const states = row.index === undefined ? [] : this.session.states.get(row.index) ?? [];
    const box = element("div", "life");
    if (!states.length) return box;
    box.append(element("h4", "", "From call to call"));
    const list = element("ol");
    for (const state of states) {
      const line = element("li");
      const button = element("button", "", `call ${state.call}`);
      button.type = "button";
      if (state.call === call) button.setAttribute("aria-current", "true");
      button.addEventListener("click", () => this.go(state.call));
      line.append(button, ` ${WORDS[state.outcome]}`, this.session.why(state).stage ? ` by ${this.session.why(state).stage}` : "");
      list.append(line);
    }
    box.append(list);
    return box;
  }
}
