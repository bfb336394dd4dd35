// Size of patterns, with counted repetitions written out. Pure.

/** Returns the number of characters, classes and groups of `regex` once counted repetitions are written out. */
export function regexSize(regex: string): number {
  /** Sizes of the open groups; the last one is the group being read. */
  const groups = [0];
  const counted = /\{(\d*)(?:,(\d*))?\}/y;
  let last = 0;
  const add = (size: number) => {
    last = size;
    groups.push(capped((groups.pop() as number) + size));
  };
  for (let at = 0; at < regex.length; at++) {
    const char = regex[at];
    if (char === "\\") {
      at++;
      add(1);
    } else if (char === "[") {
      at = endOfClass(regex, at);
      add(1);
    } else if (char === "(") groups.push(1);
    else if (char === ")" && groups.length > 1) add(groups.pop() as number);
    else if (char === "{") {
      counted.lastIndex = at;
      const [text = "", low = "", high = ""] = counted.exec(regex) ?? [];
      const times = capped(Math.max(1, Number(low), Number(high)));
      if (text === "") add(1);
      else {
        const repeated = capped(last * times);
        add(repeated - last);
        last = repeated;
        at += text.length - 1;
      }
    } else if (char === "?" || char === "*" || char === "+") {
      // A count behind it repeats the same part.
      const repeated = last;
      add(1);
      last = repeated;
    } else add(1);
  }
  return capped(groups.reduce((sum, size) => sum + size, 0));
}

/** Index of the bracket that closes the class which opens at `start`. */
function endOfClass(regex: string, start: number): number {
  let at = start + (regex[start + 1] === "^" ? 2 : 1);
  if (regex[at] === "]") at++;
  while (at < regex.length && regex[at] !== "]") at += regex[at] === "\\" ? 2 : 1;
  return at;
}

/** Keeps sums finite: everything above the limit is equal. */
export const capped = (size: number) => Math.min(size, Number.MAX_SAFE_INTEGER / 4096);
