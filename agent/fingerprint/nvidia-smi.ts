// Queries nvidia-smi and reads its output. Drivers differ in which fields they know: one that refuses a
// field by name is queried again without it, and never with it again.
import { runTool, type ToolEnd } from "./run-tool.ts";

/** Cells by field name; a field that this driver does not know, or does not report for this GPU, is absent. */
export type Row = Readonly<Record<string, string>>;

type Answer = { readonly kind: "ok"; readonly rows: readonly Row[] } | Exclude<ToolEnd, { readonly kind: "ok" }>;

export type NvidiaSmi = ReturnType<typeof createNvidiaSmi>;

const limitMs = 5_000;
const refusedField = /^Field "([^"]+)" is not a valid field to query/;

export function createNvidiaSmi(tool = "nvidia-smi") {
  const unknown = new Set<string>();

  async function query(what: "gpu" | "compute-apps", wanted: readonly string[], signal: AbortSignal): Promise<Answer> {
    for (;;) {
      const fields = wanted.filter((field) => !unknown.has(field));
      const args = [`--query-${what}=${fields.join(",")}`, "--format=csv,noheader,nounits"];
      const end = await runTool(tool, args, limitMs, signal);
      if (end.kind === "ok") return { kind: "ok", rows: parseCsv(end.output, fields) };
      const refused = end.kind === "failed" ? refusedField.exec(end.reason)?.[1] : undefined;
      if (refused === undefined || !fields.includes(refused) || fields.length === 1) return end;
      unknown.add(refused);
    }
  }

  return {
    gpus: (fields: readonly string[], signal: AbortSignal) => query("gpu", fields, signal),
    /** Processes that hold GPU memory. */
    processes: (fields: readonly string[], signal: AbortSignal) => query("compute-apps", fields, signal),
    /** `-q -x`: everything, as XML. */
    report: (signal: AbortSignal) => runTool(tool, ["-q", "-x"], limitMs, signal),
    /** `-L`: the only list that has the uuids of MIG slices. */
    list: (signal: AbortSignal) => runTool(tool, ["-L"], limitMs, signal),
  };
}

/** Lines of `--format=csv,noheader,nounits`. The last field may hold commas; a line with fewer cells is none of a table. */
export function parseCsv(csv: string, fields: readonly string[]): Row[] {
  return csv.split("\n").flatMap((line) => {
    const cells = line.split(",").map((cell) => cell.trim());
    if (cells.length < fields.length) return [];
    const last = cells.slice(fields.length - 1).join(",");
    const reported = fields.flatMap((field, at) => {
      const cell = (at === fields.length - 1 ? last : cells[at]) ?? "";
      return isReported(cell) ? [[field, cell] as const] : [];
    });
    return [Object.fromEntries(reported)];
  });
}

/** `[N/A]`, `[Not Supported]`, `[Unknown Error]`, `[GPU requires reset]`: said of a field, not a value. */
function isReported(cell: string): boolean {
  return cell !== "" && !/^\[.*\]$/.test(cell) && cell !== "N/A";
}

export function numberIn(row: Row, field: string): number | undefined {
  const cell = row[field];
  if (cell === undefined || !/^-?\d+(\.\d+)?$/.test(cell)) return undefined;
  return Number(cell);
}
