import stringWidth from "string-width";

/** A label before a value, such as `status   deployed`. */
const label = /^ *\S.{0,24}? {2,}(?=\S)/;
/** A command in backticks stays on one line, so that it can be copied. */
const words = /[^\s`]*`[^`]*`\S*|\S+/g;

/** Breaks lines longer than `maxWidth` columns at spaces. The rest of a line starts below its value, or two columns to the right. */
export const wrap = (text: string, maxWidth: number): string =>
  text
    .split("\n")
    .flatMap((line) => {
      if (stringWidth(line) <= maxWidth) return [line];
      const lead = /^ */.exec(line)?.[0] ?? "";
      const head = label.exec(line)?.[0] ?? lead;
      const indent = head === lead ? lead.length && lead.length + 2 : head.length;
      return wrapAfter(head, line.slice(head.length), maxWidth, indent);
    })
    .join("\n");

/** Lines of `head` and `text`. */
export function wrapAfter(head: string, text: string, maxWidth: number, indent = head.length): readonly string[] {
  const lines: string[] = [];
  let line = head;
  let isEmpty = true;
  for (const word of text.match(words) ?? []) {
    if (!isEmpty && stringWidth(line) + 1 + stringWidth(word) > maxWidth) {
      lines.push(line);
      line = " ".repeat(indent);
      isEmpty = true;
    }
    line += isEmpty ? word : ` ${word}`;
    isEmpty = false;
  }
  return [...lines, line.trimEnd()];
}

/** Columns of the terminal, or COLUMNS. No limit for a pipe or a terminal without a known width. */
export const widthOf = (stream: NodeJS.WriteStream): number =>
  stream.columns || Number(process.env["COLUMNS"]) || Number.POSITIVE_INFINITY;
