// Pairs that a form takes as lines `NAME = VALUE`.

/** `cut`: which `=` of a line counts. Skips empty lines. A line without `=` has an empty value. */
export function pairsIn(lines: string, cut: "first" | "last"): readonly (readonly [name: string, value: string])[] {
  return lines
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map((line) => {
      const at = cut === "first" ? line.indexOf("=") : line.lastIndexOf("=");
      return at < 0 ? [line.trim(), ""] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
    });
}
