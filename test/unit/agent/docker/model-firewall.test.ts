import { pino } from "pino";
import { describe, expect, it } from "vitest";
import { modelBridgePrefix } from "../../../../agent/docker/bridge-network.ts";
import { createModelFirewall, modelRules } from "../../../../agent/docker/model-firewall.ts";
import { rulesFor } from "../../../../agent/docker/rental-firewall.ts";

describe("the rules of model containers", () => {
  const { v4, v6 } = modelRules("node-1");

  it("drop all packets from or through one of their bridges except replies to the host, over IPv6 also those", () => {
    const rulesOf = (text: string) => text.match(/-A .*/g) ?? [];
    expect(rulesOf(v4.text).filter((rule) => !rule.endsWith("-j DROP"))).toEqual([
      expect.stringMatching(/^-A STOKER-[0-9a-f]{8}-HOST -m conntrack --ctstate ESTABLISHED,RELATED -j RETURN$/),
    ]);
    expect(rulesOf(v4.text).at(-1)).toMatch(/-HOST -j DROP$/);
    expect(rulesOf(v6.text).every((rule) => rule.endsWith("-j DROP"))).toBe(true);
    for (const { jumps } of [v4, v6]) {
      expect(jumps.map(({ from, match }) => `${from} ${match[0]}`)).toEqual(["FORWARD -i", "FORWARD -o", "INPUT -i"]);
      expect(new Set(jumps.map(({ match }) => match[1]))).toEqual(new Set([`${modelBridgePrefix("node-1")}+`]));
    }
  });

  it("have names of their own, apart from those of the host's rentals and of other agents", () => {
    const chains = [modelRules("node-1"), modelRules("node-2"), rulesFor("node-1-rentals")].flatMap(
      (one) => one.v4.chains,
    );
    expect(new Set(chains).size).toBe(chains.length);
    for (const chain of chains) expect(chain.length).toBeLessThanOrEqual(28);
  });
});

describe("the firewall of model containers", () => {
  /** Fails where a call of iptables matches. */
  function firewall(failing: RegExp, isRequired = false) {
    const run = async (file: string, args: readonly string[]): Promise<string> => {
      if (failing.test([file, ...args].join(" "))) throw new Error("Permission denied (you must be root)");
      return "";
    };
    return createModelFirewall({ nodeName: "node-1", log: pino({ level: "silent" }), isRequired, run, hasIpv6: true });
  }

  it("reports what stays open if rules are not permitted, and lets containers start", async () => {
    const one = firewall(/./);
    expect(await one.whyNot()).toMatch(
      /^iptables cannot be used here \(Permission denied .*\), so model containers can reach services of this host .*: run the agent as root/,
    );
    await expect(one.apply()).resolves.toBeUndefined();
  });

  it("lets none start there if the operator requires it, and reports that", async () => {
    const one = firewall(/./, true);
    expect(await one.whyNot()).toMatch(/so no container is started \(STOKER_CONTAINER_FIREWALL=required\)/);
    await expect(one.apply()).rejects.toMatchObject({ code: "start_failed", retryable: true });
  });

  it("lets none start where rules are permitted and could not be set this time", async () => {
    const one = firewall(/-restore/);
    expect(await one.whyNot()).toBeUndefined();
    await expect(one.apply()).rejects.toMatchObject({ code: "start_failed", retryable: true });
  });
});
