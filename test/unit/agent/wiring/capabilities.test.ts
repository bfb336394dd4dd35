import { expect, it } from "vitest";
import { lackingCapabilities } from "../../../../agent/wiring/capabilities.ts";

const volumes = ["CHOWN", "DAC_OVERRIDE", "FOWNER"] as const;
const status = (effective: string) => `Name:\tnode\nCapPrm:\t000001ffffffffff\nCapEff:\t${effective}\nCapBnd:\t0\n`;

it("root with all of its capabilities, or with these, lacks none", () => {
  expect(lackingCapabilities(volumes, status("000001ffffffffff"))).toEqual([]);
  expect(lackingCapabilities(volumes, status("000000000000000b"))).toEqual([]);
});

it("root of a container that was given one alone is told what it lacks", () => {
  // NET_ADMIN.
  expect(lackingCapabilities(volumes, status("0000000000001000"))).toEqual(volumes);
  expect(lackingCapabilities(volumes, status("0000000000000003"))).toEqual(["FOWNER"]);
});

it("where the kernel does not say, nothing is held to be lacking", () => {
  expect(lackingCapabilities(volumes, "Name:\tnode\n")).toEqual([]);
});
