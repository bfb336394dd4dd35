import { describe, expect, it } from "vitest";
import { hostNamed } from "../../../../control-plane/fleet/find-host.ts";
import type { HostId } from "../../../../proto/ids.ts";

const host = (id: string, hostname: string) => ({ id: id as HostId, hostname });
const hosts = [host("a1", "gpu-1"), host("b2", "gpu-2"), host("c3", "gpu-2"), host("gpu-1", "odd")];

describe("a host as an operator names it", () => {
  it("is found by its id before any name, and by a name that is its alone", () => {
    expect(hostNamed(hosts, "b2")).toBe("b2");
    expect(hostNamed(hosts, "gpu-1")).toBe("gpu-1");
    expect(hostNamed(hosts.slice(0, 3), "gpu-1")).toBe("a1");
  });
  it("is not guessed where two have the name: the sentence gives their ids", () => {
    expect(() => hostNamed(hosts, "gpu-2")).toThrow("2 hosts are named gpu-2. Use one of their ids: b2, c3.");
  });
  it("comes back as it was given where none is known: it may have joined and not come yet", () => {
    expect(hostNamed(hosts, "zz")).toBe("zz");
  });
});
