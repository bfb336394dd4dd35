// Lines of a deployment's log, read into time, level, message and fields.

export const logLevels = ["debug", "info", "warn", "error"] as const;
export type LogLevel = (typeof logLevels)[number];

export interface LogLine {
  readonly key: string;
  readonly atMs: number;
  readonly level: LogLevel;
  readonly message: string;
  /** Fields of a JSON line beside its time, level and message. */
  readonly fields: Readonly<Record<string, unknown>>;
  readonly instance: string;
  readonly raw: string;
}

const names: Readonly<Record<string, LogLevel>> = {
  trace: "debug",
  debug: "debug",
  info: "info",
  notice: "info",
  warn: "warn",
  warning: "warn",
  error: "error",
  err: "error",
  fatal: "error",
  critical: "error",
  panic: "error",
};

/** Repeated in every line, or shown elsewhere. */
const hidden = new Set([
  "level",
  "time",
  "timestamp",
  "ts",
  "msg",
  "message",
  "instanceId",
  "pid",
  "hostname",
  "component",
]);

/** `entries`: lines of each instance as [unix seconds, line]. Oldest first. */
export function readLines(entries: Readonly<Record<string, readonly (readonly string[])[]>>): readonly LogLine[] {
  return Object.entries(entries)
    .flatMap(([instance, lines]) => lines.map(([at = "", raw = ""]) => readLine(instance, at, raw)))
    .sort((a, b) => a.atMs - b.atMs || (a.key < b.key ? -1 : 1));
}

function readLine(instance: string, at: string, raw: string): LogLine {
  const base = { key: `${instance}/${at}`, atMs: Number(at) * 1000, instance, raw };
  const json = objectIn(raw);
  if (!json) return { ...base, level: levelInText(raw), message: raw, fields: {} };
  const { msg, message, event } = json;
  const fields = Object.fromEntries(Object.entries(json).filter(([name]) => !hidden.has(name)));
  return { ...base, level: levelOf(json["level"]), message: String(msg ?? message ?? event ?? ""), fields };
}

function objectIn(raw: string): Readonly<Record<string, unknown>> | undefined {
  if (!raw.startsWith("{")) return undefined;
  try {
    const value: unknown = JSON.parse(raw);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

/** A name, or pino's number. */
function levelOf(level: unknown): LogLevel {
  if (typeof level === "number") return level >= 50 ? "error" : level >= 40 ? "warn" : level >= 30 ? "info" : "debug";
  return names[String(level).toLowerCase()] ?? "info";
}

const wordOf = /\b(TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|FATAL|CRITICAL)\b/;

function levelInText(raw: string): LogLevel {
  const word = wordOf.exec(raw)?.[1] ?? (/^\s*(Traceback|\w*(Error|Exception):)/.test(raw) ? "error" : "info");
  return names[word.toLowerCase()] ?? "info";
}

/** Lines of at least `level` that contain all words of `search`. */
export function matchingLines(lines: readonly LogLine[], level: LogLevel, search: string): readonly LogLine[] {
  const least = logLevels.indexOf(level);
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  return lines.filter((line) => {
    if (logLevels.indexOf(line.level) < least) return false;
    if (words.length === 0) return true;
    const whole = line.raw.toLowerCase();
    return words.every((word) => whole.includes(word));
  });
}

/** `ms=41 status=200` */
export const fieldsText = (fields: Readonly<Record<string, unknown>>): string =>
  Object.entries(fields)
    .map(([name, value]) => `${name}=${typeof value === "object" ? JSON.stringify(value) : String(value)}`)
    .join(" ");
