import { type Logger, pino } from "pino";
import { expect, it } from "vitest";
import { plainLines } from "../../../../control-plane/http/plain-lines.ts";

/** What each logger writes for the same calls, times aside. */
function written(make: (log: Logger) => Logger, base: object | null = null): string[] {
  const lines: string[] = [];
  const destination = { write: (line: string) => void lines.push(line.replace(/"time":\d+/, '"time":0')) };
  const log = make(pino({ base: base as null }, destination));
  log.info({ route: '/a"b\n', status: 200, ms: 1.5, gone: undefined, stream: false }, "request");
  log.error({ status: 500, err: new TypeError("a bug") }, "request");
  log.debug({ status: 1 }, "request");
  return lines.map((line) => line.replace(/\\n +at .*?(?=")/g, ""));
}

it("writes the very lines that pino would write", () => {
  const ours = written(plainLines);
  expect(ours).toHaveLength(2);
  expect(ours).toEqual(written((log) => log));
  expect(ours[0]?.endsWith('"msg":"request"}\n')).toBe(true);
});

it("keeps the bindings of the logger it is made from", () => {
  const bound = (log: Logger) => log.child({ part: "edge" });
  expect(written((log) => plainLines(bound(log)), { pid: 1 })).toEqual(written(bound, { pid: 1 }));
});
