import pino from "pino";
import { expect, it } from "vitest";
import { createHostPauses, hostPauseMs } from "../../../../control-plane/rpc/host-pauses.ts";
import type { HostId } from "../../../../proto/ids.ts";

it("keeps a host out for 10 seconds after its last offence, and logs once per pause", () => {
  let nowMs = 0;
  const lines: string[] = [];
  const log = pino({ level: "error" }, { write: (line: string) => void lines.push(line) });
  const pauses = createHostPauses({ monotonicMs: () => nowMs, log });
  const host = "h" as HostId;
  expect(pauses.isPaused(host)).toBe(false);
  pauses.begin(host, "why");
  nowMs += hostPauseMs - 1;
  expect(pauses.isPaused(host)).toBe(true);
  expect(pauses.isPaused("other" as HostId)).toBe(false);
  pauses.begin(host, "why");
  expect(lines).toHaveLength(1);
  nowMs += hostPauseMs - 1;
  expect(pauses.isPaused(host)).toBe(true);
  nowMs += 1;
  expect(pauses.isPaused(host)).toBe(false);
  pauses.begin(host, "why");
  expect(lines).toHaveLength(2);
});
