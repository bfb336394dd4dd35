import { expect, it } from "vitest";
import { unexpectedEnd } from "../../chaos/seeds/exits.ts";
import type { Exit } from "../../fakes/processes.ts";

const exit = (is: Partial<Exit>): Exit => ({
  ...{ name: "agent-1", code: null, signal: null, sent: undefined, output: "first\nlast\n" },
  ...is,
});

it("accepts ends that the test caused, and those that are documented", () => {
  expect(unexpectedEnd(exit({ signal: "SIGKILL", sent: "SIGKILL" }), false)).toBeUndefined();
  expect(unexpectedEnd(exit({ signal: "SIGKILL" }), true)).toBeUndefined();
  const output = "control-plane: PostgreSQL failed while the control plane started or stopped (x). Start it again.\n";
  expect(unexpectedEnd(exit({ name: "control-plane", code: 75, output }), false)).toBeUndefined();
});

it("reports every other end with its last lines", () => {
  const ends = [
    exit({ signal: "SIGSEGV" }),
    exit({ signal: "SIGKILL" }),
    exit({ code: 1 }),
    exit({ code: 0 }),
    // It had crashed before the fault killed it.
    exit({ code: 1, sent: "SIGKILL" }),
    exit({ code: 1 }),
    exit({ code: 75 }),
  ];
  for (const end of ends) expect(unexpectedEnd(end, false)).toMatch(/^agent-1 ended .*last$/s);
  expect(unexpectedEnd(exit({ signal: "SIGSEGV" }), true)).toContain("SIGSEGV");
});
