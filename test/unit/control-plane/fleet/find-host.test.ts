import { describe, expect, it } from "vitest";
import { hostNamed } from "../../../../control-plane/fleet/find-host.ts";
import type { HostId } from "../../../../proto/ids.ts";

const host = (id: string, hostname: string) => ({ id: id as HostId, hostname });
const hosts = [host("a1", "gpu-1"), host("b2", "gpu-2"), host("c3", "gpu-2"), host("gpu-1", "odd")];

describe("finding a host by name or id", () => {
  it("finds the id before any name, and a name that is unique", () => {
    expect(hostNamed(hosts, "b2")).toBe("b2");
    expect(hostNamed(hosts, "gpu-1")).toBe("gpu-1");
    expect(hostNamed(hosts.slice(0, 3), "gpu-1")).toBe("a1");
  });
  it("refuses a name shared by two hosts, with their ids", () => {
    expect(() => hostNamed(hosts, "gpu-2")).toThrow("2 hosts are named gpu-2. Use one of their ids: b2, c3.");
  });
  it("returns an unknown name unchanged: the host may have joined without reporting yet", () => {
    expect(hostNamed(hosts, "zz")).toBe("zz");
  });
});
