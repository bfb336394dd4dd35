/** The `data` of each server-sent event, in order; comments and other fields are passed over. */
export async function* events(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of bytes) {
    // The whole rest again: a chunk may end between the two characters of a line end.
    text = (text + decoder.decode(chunk, { stream: true })).replaceAll("\r\n", "\n");
    let end = text.indexOf("\n\n");
    while (end >= 0) {
      const data = dataOf(text.slice(0, end));
      if (data !== undefined) yield data;
      text = text.slice(end + 2);
      end = text.indexOf("\n\n");
    }
  }
}

function dataOf(event: string): string | undefined {
  const lines = event.split("\n").filter((line) => line.startsWith("data:"));
  return lines.length === 0 ? undefined : lines.map((line) => line.slice(5).replace(/^ /, "")).join("\n");
}
