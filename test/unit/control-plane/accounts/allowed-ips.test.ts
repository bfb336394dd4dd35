import { describe, expect, it } from "vitest";
import { addressTest, badAddress } from "../../../../control-plane/accounts/allowed-ips.ts";

describe("the addresses a key may be used from", () => {
  const cases: readonly (readonly [string, string, boolean])[] = [
    ["10.1.2.3", "10.1.2.3", true],
    ["10.1.2.3", "10.1.2.4", false],
    ["10.0.0.0/8", "10.255.0.1", true],
    ["10.0.0.0/8", "11.0.0.1", false],
    ["0.0.0.0/0", "203.0.113.9", true],
    ["0.0.0.0/0", "2001:db8::1", false],
    ["2001:db8::/32", "2001:db8:1::9", true],
    ["2001:db8::/32", "2001:db9::1", false],
    // A dual-stack socket shows an IPv4 client as a mapped address.
    ["10.0.0.0/8", "::ffff:10.1.1.1", true],
    ["10.0.0.0/8", "::FFFF:11.1.1.1", false],
    ["::ffff:10.0.0.0/104", "10.9.9.9", true],
    ["::ffff:10.0.0.7", "10.0.0.7", true],
    ["fe80::/10", "fe80::1%eth0", true],
  ];
  it.each(cases)("%s holds %s: %s", (entry, ip, isHeld) => {
    expect(addressTest([entry])?.(ip)).toBe(isHeld);
  });

  it("are unrestricted without a list; an empty list or a peer without an address matches nothing", () => {
    expect(addressTest(null)).toBeUndefined();
    expect(addressTest([])?.("10.0.0.1")).toBe(false);
    expect(addressTest(["0.0.0.0/0", "::/0"])?.("")).toBe(false);
  });

  it.each([
    "",
    "home",
    "10.0.0",
    "10.0.0.0/33",
    "10.0.0.0/",
    "10.0.0.0/08",
    "10.0.0.0/8/8",
    "::/129",
    "fe80::1%eth0",
    "::ffff:10.0.0.0/8",
    " 10.0.0.1",
  ])("do not include %j", (entry) => expect(badAddress(["10.0.0.1", entry])).toBe(entry));
});
