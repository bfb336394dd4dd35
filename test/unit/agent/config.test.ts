import { expect, it } from "vitest";
import { readConfig } from "../../../agent/config.ts";

const needed = { STOKER_AGENT_DATA: "/var/lib/stoker-agent", STOKER_CONTROL: "10.0.0.1:9090" };

it("bounds what bodies of requests may take of the host's memory, never below what one of them needs", () => {
  const mib = 1024 * 1024;
  expect(readConfig(needed).bodyMemoryBytes).toBe(512 * mib);
  expect(readConfig({ ...needed, STOKER_AGENT_BODY_MEMORY_MIB: "64" }).bodyMemoryBytes).toBe(64 * mib);
  expect(() => readConfig({ ...needed, STOKER_AGENT_BODY_MEMORY_MIB: "20" })).toThrow(
    "STOKER_AGENT_BODY_MEMORY_MIB must be a whole number from 64",
  );
});
