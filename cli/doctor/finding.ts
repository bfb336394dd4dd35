// Results of `stoker doctor`.

export interface Finding {
  readonly check: string;
  readonly state: "ok" | "warning" | "failure";
  readonly text: string;
  /** Suggested action for a warning or a failure. */
  readonly fix: string;
}

export const ok = (check: string, text: string): Finding => ({ check, state: "ok", text, fix: "" });
export const warning = (check: string, text: string, fix: string): Finding => ({ check, state: "warning", text, fix });
export const failure = (check: string, text: string, fix: string): Finding => ({ check, state: "failure", text, fix });

const labels = { ok: "ok", warning: "WARN", failure: "FAIL" } as const;
const checkWidth = 12;

/** `FAIL  gpu         nvidia-smi: no devices` with the fix below, in lines of at most `width` columns where words allow. */
export function findingsText(findings: readonly Finding[], width = 80): string {
  const indent = " ".repeat(6 + checkWidth);
  const lines = findings.flatMap(({ check, state, text, fix }) => {
    const head = `${labels[state].padEnd(6)}${check.padEnd(checkWidth)}`;
    const [first = "", ...rest] = wrapped(text, width - indent.length);
    const fixes = fix === "" ? [] : wrapped(`Fix: ${fix}`, width - indent.length);
    return [`${head}${first}`.trimEnd(), ...[...rest, ...fixes].map((line) => `${indent}${line}`)];
  });
  const counted = (state: Finding["state"]) => {
    const count = findings.filter((one) => one.state === state).length;
    return `${count} ${state}${count === 1 ? "" : "s"}`;
  };
  return [...lines, "", `${counted("failure")}, ${counted("warning")}`].join("\n");
}

function wrapped(text: string, width: number): readonly string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(/\s+/)) {
    if (line !== "" && line.length + 1 + word.length > width) {
      lines.push(line);
      line = word;
    } else line = line === "" ? word : `${line} ${word}`;
  }
  return [...lines, line];
}
