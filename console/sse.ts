// Server-sent events as text arrives, wherever its pieces are cut.

/** The data of each whole event in `buffer`, and what is left for the next piece. Comments are left out. */
export function eventsIn(buffer: string): { readonly data: readonly string[]; readonly rest: string } {
  const parts = buffer.replaceAll("\r\n", "\n").split("\n\n");
  const rest = parts.pop() ?? "";
  const data = parts.flatMap((event) => {
    const lines = event.split("\n").filter((line) => line.startsWith("data:"));
    return lines.length > 0 ? [lines.map((line) => line.slice(5).replace(/^ /, "")).join("\n")] : [];
  });
  return { data, rest };
}
