// A logger for lines whose fields are plain values. pino writes a line field by field, so that any value and serialiser fits;
// that is most of what a request's line costs. One JSON.stringify of the whole gives the same text for a third of it.
import { type Logger, pino } from "pino";

type Write = (this: Parts, line: Record<string, unknown>, message: string, level: number, time: string) => string;

/** pino's own, under its published symbols. */
interface Parts {
  readonly [key: symbol]: unknown;
}
const symbols = pino.symbols as unknown as Readonly<Record<string, symbol>>;
const part = (name: string): symbol => symbols[name] ?? Symbol(name);
const [asJson, beginnings, bindings, end] = ["asJsonSym", "lsCacheSym", "chindingsSym", "endSym"].map(part) as [
  symbol,
  symbol,
  symbol,
  symbol,
];

/** Lines with an `err` are written by pino itself. */
export function plainLines(log: Logger): Logger {
  const child = log.child({}) as Logger & Record<symbol, unknown>;
  const careful = child[asJson] as Write | undefined;
  if (typeof careful !== "function") return child;
  const write: Write = function (line, message, level, time) {
    if (line["err"] !== undefined) return careful.call(this, line, message, level, time);
    const start = (this[beginnings] as Record<number, string>)[level];
    return `${start}${time}${this[bindings]},${JSON.stringify(line).slice(1, -1)},"msg":${JSON.stringify(message)}${this[end]}`;
  };
  child[asJson] = write;
  return child;
}
