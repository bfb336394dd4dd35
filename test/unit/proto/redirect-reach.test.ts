import { describe, expect, it } from "vitest";
import { isOwnNetwork, reachOf, refuseBeyond } from "../../../proto/redirect-reach.ts";

describe("addresses a public hub must not redirect to", () => {
  it.each([
    "http://127.0.0.1/",
    "http://169.254.169.254/",
    "http://2130706433/",
    "http://0x7f.1/",
    "http://[::1]/",
    "http://[::ffff:10.0.0.1]/",
    "http://192.168.1.1:8080/",
  ])("include %s", (url) => {
    expect(() => refuseBeyond("outside", new URL(url))).toThrow(/inside this machine's own network/);
  });

  it.each(["https://1.1.1.1/", "https://[2606:4700::1111]/", "https://files.example/"])("do not include %s", (url) => {
    expect(() => refuseBeyond("outside", new URL(url))).not.toThrow();
  });

  it("knows a mirror in the operator's own network as such", async () => {
    expect(await isOwnNetwork("10.1.2.3")).toBe(true);
    expect(await isOwnNetwork("1.1.1.1")).toBe(false);
  });
});

describe("a mirror in the operator's own network", () => {
  const mirror = new URL("http://10.1.2.3/");

  it("redirects downloads within it", async () => {
    expect(await reachOf(mirror, new URL("http://10.1.2.4/file"))).toBe("notHere");
    expect(() => refuseBeyond("notHere", new URL("http://10.1.2.4/file"))).not.toThrow();
  });

  it.each([
    "http://127.0.0.1/",
    "http://169.254.169.254/",
    "http://100.100.100.200/",
    "http://[::1]/",
    "http://[fe80::1]/",
    "http://[fd00:ec2::254]/",
    "http://[::ffff:127.0.0.1]/",
  ])("does not redirect them to this machine or a metadata service: %s", (url) => {
    expect(() => refuseBeyond("notHere", new URL(url))).toThrow(/inside this machine's own network/);
  });

  it("is itself always allowed, for the operator named it", async () => {
    expect(await reachOf(new URL("http://127.0.0.1:1/"), new URL("http://127.0.0.1:2/"))).toBeUndefined();
    expect(await reachOf(new URL("https://1.1.1.1/"), new URL("https://1.1.1.2/"))).toBe("outside");
  });
});
