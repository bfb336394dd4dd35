// Code blocks in the answer of a model.

export interface Segment {
  readonly kind: "text" | "code";
  readonly text: string;
}

/** Splits at the fences of Markdown. A block that has not ended yet counts as code. */
export function segmentsOf(text: string): readonly Segment[] {
  const segments: Segment[] = [];
  let lines: string[] = [];
  let fence = "";
  const end = (kind: Segment["kind"]) => {
    const joined = lines.join("\n");
    if (kind === "code" || joined.trim() !== "")
      segments.push({ kind, text: kind === "code" ? joined : joined.trim() });
    lines = [];
  };
  for (const line of text.split("\n")) {
    const [, marks = ""] = /^ {0,3}(`{3,}|~{3,})/.exec(line) ?? [];
    if (fence === "" && marks !== "") {
      end("text");
      fence = marks;
    } else if (fence !== "" && marks.startsWith(fence) && line.trim() === marks) {
      end("code");
      fence = "";
    } else lines.push(line);
  }
  end(fence === "" ? "text" : "code");
  return segments;
}
