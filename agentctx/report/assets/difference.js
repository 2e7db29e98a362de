"use strict";
/* The lines by which two texts differ. */

const MOST_LINES = 3000;

/* Lines with a mark: " " in both, "-" only in the first, "+" only in the second; long runs in both are folded. */
function differences(before, after) {
  const one = before.split("\n"), other = after.split("\n");
  let start = 0;
  while (start < one.length && start < other.length && one[start] === other[start]) start++;
  let end = 0;
  while (end < one.length - start && end < other.length - start && one[one.length - 1 - end] === other[other.length - 1 - end]) end++;
  const lines = one.slice(0, start).map((line) => [" ", line]);
  lines.push(...middle(one.slice(start, one.length - end), other.slice(start, other.length - end)));
  lines.push(...one.slice(one.length - end).map((line) => [" ", line]));
  return folded(lines);
}

/* The longest common lines, by a table; of very many lines only that they are others. */
function middle(one, other) {
  if (one.length * other.length > MOST_LINES * MOST_LINES || !one.length || !other.length) {
    return [...one.map((line) => ["-", line]), ...other.map((line) => ["+", line])];
  }
  const width = other.length + 1;
  const table = new Uint16Array((one.length + 1) * width);
  for (let i = one.length - 1; i >= 0; i--) {
    for (let j = other.length - 1; j >= 0; j--) {
      const here = i * width + j;
      table[here] = one[i] === other[j] ? table[here + width + 1] + 1 : Math.max(table[here + width], table[here + 1]);
    }
  }
  const lines = [];
  let i = 0, j = 0;
  while (i < one.length || j < other.length) {
    if (i < one.length && j < other.length && one[i] === other[j]) {
      lines.push([" ", one[i]]);
      i++, j++;
    } else if (j >= other.length || (i < one.length && table[(i + 1) * width + j] >= table[i * width + j + 1])) {
      lines.push(["-", one[i++]]);
    } else {
      lines.push(["+", other[j++]]);
    }
  }
  return lines;
}

const AROUND = 3;

/* Leave out lines that are in both and far from any change. */
function folded(lines) {
  const near = new Uint8Array(lines.length);
  lines.forEach(([mark], place) => {
    if (mark !== " ") near.fill(1, Math.max(0, place - AROUND), place + AROUND + 1);
  });
  const shown = [];
  for (let place = 0; place < lines.length; place++) {
    if (near[place]) {
      shown.push(lines[place]);
      continue;
    }
    const first = place;
    while (place + 1 < lines.length && !near[place + 1]) place++;
    shown.push(["…", `${plural(place - first + 1, "line")} the same`]);
  }
  return shown;
}
