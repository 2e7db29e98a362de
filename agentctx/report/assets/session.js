"use strict";
/* The recorded session: which rows the prompt has at a call, and what became of each message. */

const GONE = new Set(["dropped", "summarised"]);
const WORDS = {
  kept: "kept", edited: "edited", moved: "moved", dropped: "left out", summarised: "in the summary",
  offloaded: "offloaded", added: "put in",
};
const KIND_NAMES = {
  system: "system", tools: "tool definitions", recap: "recap", user: "user", assistant: "assistant",
  reasoning: "reasoning", calls: "tool calls", results: "tool results", other: "other", framing: "framing",
};

/* Unpack the data that stands in the page. */
async function unpacked(element) {
  const packed = element.textContent.trim();
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  element.remove();
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return JSON.parse(await new Response(stream).text());
}

class Session {
  constructor(data) {
    this.data = data;
    this.calls = data.calls;
    this.count = data.calls.index.length;
    this.kinds = data.kinds;
    this.states = new Map(); // for each message that was ever changed: its states, by call
    for (const [index, call, outcome, item, reason, handle] of data.changes) {
      if (!this.states.has(index)) this.states.set(index, []);
      this.states.get(index).push({ call, outcome, item, reason, handle });
    }
    this.heads = data.head.length;
    this.whole = new Map();
  }

  layout(call) {
    const layouts = this.data.layouts;
    let low = 0, high = layouts.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (layouts[middle][0] <= call) low = middle + 1; else high = middle;
    }
    return low ? layouts[low - 1] : [0, [], null];
  }

  rows(call) {
    return this.heads + this.calls.index[call - 1] + this.layout(call)[1].length;
  }

  /* What became of a message of the history by a call. */
  state(index, call) {
    const item = this.data.given[index];
    const states = this.states.get(index);
    if (states) {
      let low = 0, high = states.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (states[middle].call <= call) low = middle + 1; else high = middle;
      }
      if (low) return states[low - 1];
    }
    return { call: 0, outcome: "kept", item, reason: 0 };
  }

  /* The row at a place of the prompt, left-out messages included. */
  row(call, place) {
    if (place < this.heads) return { key: `h${place}`, head: place, outcome: "kept", reason: 0, item: -1 };
    place -= this.heads;
    const [, added, order] = this.layout(call);
    if (order) {
      const at = place < order.length ? order[place] : place - added.length;
      return at < 0 ? this.addedRow(added, -1 - at) : this.givenRow(at, call);
    }
    for (let before = 0; before < added.length; before++) {
      const stands = added[before][0] + before;
      if (stands === place) return this.addedRow(added, before);
      if (stands > place) return this.givenRow(place - before, call);
    }
    return this.givenRow(place - added.length, call);
  }

  addedRow(added, place) {
    const [, outcome, item, reason, handle] = added[place];
    return { key: `a${place}`, added: place, outcome, item, reason, handle };
  }

  givenRow(index, call) {
    const { outcome, item, reason, handle } = this.state(index, call);
    return { key: `g${index}`, index, outcome, item, reason, handle };
  }

  /* The place of a row with this key; -1 when the prompt has none yet. */
  find(call, key) {
    const number = Number(key.slice(1));
    if (key[0] === "h") return number;
    const [, added, order] = this.layout(call);
    if (key[0] === "a") {
      if (number >= added.length) return -1;
      return this.heads + (order ? order.indexOf(-1 - number) : added[number][0] + number);
    }
    if (number >= this.calls.index[call - 1]) return -1;
    if (order) {
      const place = order.indexOf(number);
      return this.heads + (place < 0 ? number + added.length : place);
    }
    let before = 0;
    while (before < added.length && added[before][0] <= number) before++;
    return this.heads + number + before;
  }

  /* The message that a row shows: what is sent, or what was left out. */
  shown(row) {
    if (row.head !== undefined) {
      const [name, kind, tokens, parts] = this.data.head[row.head];
      return { role: name, kind, tokens, parts };
    }
    return this.item(row.item >= 0 ? row.item : this.data.given[row.index]);
  }

  original(row) {
    return row.index === undefined ? null : this.item(this.data.given[row.index]);
  }

  item(place) {
    const [role, kind, tokens, parts] = this.data.items[place];
    return { role, kind, tokens, parts };
  }

  /* What a row was at another call: the message then, or null where there was none. */
  at(row, base) {
    if (row.head !== undefined) return this.shown(row);
    if (row.added !== undefined) {
      const added = this.layout(base)[1][row.added];
      return added ? this.item(added[2]) : null;
    }
    if (row.index >= this.calls.index[base - 1]) return null;
    const state = this.state(row.index, base);
    return state.item >= 0 ? this.item(state.item) : null;
  }

  /* In words, how a row differs between two calls; empty where it does not. */
  change(row, base, call) {
    if (row.head !== undefined) return "";
    if (row.added !== undefined) {
      const added = this.layout(base)[1][row.added];
      return !added ? "put in" : added[2] === row.item ? "" : "rewritten";
    }
    const early = Math.min(base, call), late = Math.max(base, call);
    if (row.index >= this.calls.index[early - 1]) return base < call ? (this.sent(row) ? "new" : "new, left out") : "";
    const one = this.state(row.index, base), other = this.state(row.index, call);
    if (one.item === other.item && (one.item >= 0 || one.outcome === other.outcome)) return "";
    return `${WORDS[one.outcome]} → ${WORDS[other.outcome]}`;
  }

  sent(row) {
    return !GONE.has(row.outcome);
  }

  why(row) {
    const [stage, reason] = this.data.reasons[row.reason];
    return { stage, reason };
  }

  /* All that an item says, in small letters, for searching; made once. */
  words(place) {
    if (!this.whole.has(place)) {
      const said = this.data.items[place][3].map(([, label, ...texts]) => [label, ...texts].join("\n"));
      this.whole.set(place, said.join("\n").toLowerCase());
    }
    return this.whole.get(place);
  }

  /* The items in which words occur. */
  matching(words) {
    const wanted = words.toLowerCase();
    const found = new Set();
    for (let place = 0; place < this.data.items.length; place++) {
      if (this.words(place).includes(wanted)) found.add(place);
    }
    return found;
  }

  /* The calls that could not be sent, or would be refused. */
  faults() {
    return this.calls.fine.flatMap((fine, place) => (fine ? [] : [place + 1]));
  }

  compactions() {
    if (!this.cuts) this.cuts = this.calls.compacted.flatMap((cut, place) => (cut ? [place + 1] : []));
    return this.cuts;
  }
}

/* The text of a part as it is shown: arguments of a call indented, a text that was cut with a note. */
function partText([kind, , ...texts], kinds) {
  if (texts.length > 1) {
    return `${texts[0]}\n\n… ${texts[1].toLocaleString("en")} characters are not in this page (made without --full) …\n\n${texts[2]}`;
  }
  const text = texts[0];
  if (kinds[kind] === "calls" && text.length < 20000 && text.startsWith("{")) {
    try {
      JSON.parse(text);
      return indented(text);
    } catch {
      return text;
    }
  }
  return text;
}

/* JSON with a value a line; its numbers, its order and what is in it twice stay as they are written. */
function indented(text) {
  let depth = 0, before = "", made = "";
  const line = () => `\n${"  ".repeat(depth)}`;
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g)) {
    const closes = token === "}" || token === "]", opened = before === "{" || before === "[";
    if (closes) depth--;
    if ((closes && !opened) || (opened && !closes) || before === ",") made += line();
    made += token === ":" ? ": " : token.startsWith('"') ? JSON.stringify(JSON.parse(token)) : token;
    if (token === "{" || token === "[") depth++;
    before = token;
  }
  return made;
}

/* A text without what turns the order of its letters around; such marks and control characters are seen. */
function visible(text) {
  return text
    .replace(/[\x00-\x08\x0b-\x1f]/g, (each) => String.fromCharCode(0x2400 + each.charCodeAt(0)))
    .replace(/[\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
}

function plural(count, word) {
  return `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
}
