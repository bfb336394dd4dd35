import { describe, expect, it } from "vitest";
import { bridgePrefix } from "../../../../agent/docker/bridge-network.ts";
import { createRentalFirewall, rulesFor } from "../../../../agent/docker/rental-firewall.ts";
import { hasProjectQuota } from "../../../../agent/docker/rental-profile.ts";

describe("the rules of rentals", () => {
  const { v4, v6 } = rulesFor("node-1", { denied: ["198.51.100.0/24"], deniedPorts: [25] });

  it("match rentals by their bridges, separately for each node", () => {
    expect(bridgePrefix("node-1")).toMatch(/^skr[0-9a-f]{4}$/);
    expect(bridgePrefix("node-1")).not.toBe(bridgePrefix("node-2"));
    for (const { match } of [...v4.jumps, ...v6.jumps]) expect(match[1]).toBe(`${bridgePrefix("node-1")}+`);
    expect(v4.jumps.map(({ from }) => from)).toEqual(["FORWARD", "FORWARD", "INPUT"]);
  });

  it("drop another rental before anything is returned, and what the operator denies", () => {
    const out = v4.text.split("\n").filter((line) => line.includes("-OUT "));
    const first = out.find((line) => line.startsWith("-A"));
    expect(first).toMatch(/-o skr\+ -j DROP$/);
    expect(v4.text).toContain("-d 169.254.0.0/16 -j DROP");
    expect(v4.text).toContain("-d 198.51.100.0/24 -j DROP");
    expect(out.at(-1)).toMatch(/-p tcp --dport 25 -j DROP$/);
    expect(v4.text).toMatch(/^\*mangle\n(:STOKER-[0-9a-f]{8}-\w+ - \[0:0\]\n){3}(-A .*\n)+COMMIT\n$/);
  });

  it("let nothing through over IPv6", () => {
    expect(v6.text.match(/-A .*/g)?.every((rule) => rule.endsWith("-j DROP"))).toBe(true);
  });
});

describe("the firewall of rentals", () => {
  /** A kernel that keeps jumps and chains as texts. */
  function kernel(fails: (call: string) => boolean = () => false) {
    const jumps = new Set<string>();
    const calls: string[] = [];
    const run = async (file: string, args: readonly string[], input = ""): Promise<string> => {
      const call = [file, ...args].join(" ");
      calls.push(call);
      if (fails(call)) throw new Error("Permission denied (you must be root)\nmore");
      const [, , , , command = "", chain = "", ...rest] = args;
      const rule = `${file} ${chain} ${rest.filter((word) => word !== "1").join(" ")}`;
      if (command === "-I") jumps.add(rule);
      if (command === "-C" && !jumps.has(rule)) throw new Error("Bad rule");
      if (command === "-D" && !jumps.delete(rule)) throw new Error("Bad rule");
      return input;
    };
    return { jumps, calls, firewall: createRentalFirewall({ nodeName: "node-1", run, hasIpv6: true }) };
  }

  it("sets each jump once however often it is applied, and takes all of them out", async () => {
    const { jumps, firewall } = kernel();
    await firewall.apply();
    await firewall.apply();
    expect(jumps.size).toBe(6);
    await firewall.remove();
    await firewall.remove();
    expect(jumps.size).toBe(0);
  });

  it("reports in a sentence why a host cannot offer rentals", async () => {
    const { firewall } = kernel((call) => call.startsWith("ip6tables"));
    expect(await firewall.whyNot()).toMatch(
      /ip6tables cannot be used here \(Permission denied \(you must be root\)\): run the agent as root/,
    );
    expect(await kernel().firewall.whyNot()).toBeUndefined();
    const withoutEngine = kernel((call) => call === "iptables -w 5 -t filter -S DOCKER-USER");
    expect(await withoutEngine.firewall.whyNot()).toMatch(/and the Docker engine with its own iptables rules/);
  });

  it("lets nothing be started where a rule cannot be set", async () => {
    const { firewall } = kernel((call) => call.includes("-I INPUT"));
    await expect(firewall.apply()).rejects.toMatchObject({ code: "start_failed", retryable: true });
  });
});

describe("a limit of the writable root", () => {
  it("is there only where the engine's disk has project quotas", () => {
    const mounts =
      "/dev/a / ext4 rw 0 0\n/dev/b /var/lib/docker xfs rw,prjquota 0 0\n/dev/c /data xfs rw,noquota 0 0\n";
    expect(hasProjectQuota("/var/lib/docker", mounts)).toBe(true);
    expect(hasProjectQuota("/data/docker", mounts)).toBe(false);
    expect(hasProjectQuota("/var/lib/docker-other", mounts)).toBe(false);
  });
});
