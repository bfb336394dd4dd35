import { describe, expect, it } from "vitest";
import { isOwnNetwork, refuseInward } from "../../../../agent/weights/own-network.ts";

describe("addresses a public hub must not redirect to", () => {
  it.each([
    "http://127.0.0.1/",
    "http://169.254.169.254/",
    "http://2130706433/",
    "http://0x7f.1/",
    "http://[::1]/",
    "http://[::ffff:10.0.0.1]/",
    "http://192.168.1.1:8080/",
  ])("%s is refused", (url) => {
    expect(() => refuseInward(new URL(url))).toThrow(/inside this machine's own network/);
  });

  it.each(["https://1.1.1.1/", "https://[2606:4700::1111]/", "https://files.example/"])("%s is not", (url) => {
    expect(() => refuseInward(new URL(url))).not.toThrow();
  });

  it("knows a mirror in the operator's own network as such", async () => {
    expect(await isOwnNetwork("10.1.2.3")).toBe(true);
    expect(await isOwnNetwork("1.1.1.1")).toBe(false);
  });
});
