import { pino } from "pino";
import { expect, it } from "vitest";
import { refusalOf } from "../../../control-plane/http/errors/render-error.ts";
import { limitOutageLines } from "../../../control-plane/outage-log.ts";
import { DatabaseUnavailable } from "../../../control-plane/service-error.ts";

it("writes one line a second of each kind during an outage, counts the others, and leaves other errors alone", () => {
  let nowMs = 0;
  const lines: { msg: string; repeated?: number }[] = [];
  const log = pino(
    { hooks: limitOutageLines(() => nowMs) },
    { write: (line: string) => void lines.push(JSON.parse(line)) },
  ).child({ host: "h1" });
  const err = new DatabaseUnavailable("disk_full");
  for (; nowMs < 2_500; nowMs += 10) {
    log.error({ err }, "not settled");
    log.warn({ err }, "not renewed");
  }
  const of = (msg: string) => lines.filter((line) => line.msg === msg);
  expect(of("not settled").map(({ repeated }) => repeated)).toEqual([undefined, 99, 99]);
  expect(of("not renewed")).toHaveLength(3);
  for (let n = 0; n < 5; n += 1) log.error({ err: new Error("a defect") }, "not settled");
  log.error("not settled");
  expect(of("not settled")).toHaveLength(9);
});

it("limits the lines of requests that an outage refuses, as it limits those of loops", () => {
  const lines: string[] = [];
  const log = pino({ hooks: limitOutageLines(() => 0) }, { write: (line: string) => void lines.push(line) });
  for (let n = 0; n < 5; n += 1) log.error({ err: refusalOf(new DatabaseUnavailable("failing")).cause }, "request");
  expect(lines).toHaveLength(1);
});
