// Results of `stoker doctor`.
import { counted } from "../counted.ts";
import { wrapAfter } from "../wrap.ts";

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
  const lines = findings.flatMap(({ check, state, text, fix }) => [
    ...wrapAfter(`${labels[state].padEnd(6)}${check.padEnd(checkWidth)}`, text, width),
    ...(fix === "" ? [] : wrapAfter(indent, `Fix: ${fix}`, width)),
  ]);
  const count = (state: Finding["state"]) => counted(findings.filter((one) => one.state === state).length, state);
  return [...lines, "", `${count("failure")}, ${count("warning")}`].join("\n");
}
