import { expect, it } from "vitest";
import { lackingCapabilities } from "../../../../agent/wiring/volumes.ts";

const volumes = ["CHOWN", "DAC_OVERRIDE", "FOWNER"] as const;
const status = (effective: string) => `Name:\tnode\nCapPrm:\t000001ffffffffff\nCapEff:\t${effective}\nCapBnd:\t0\n`;

it("finds none missing for root with all capabilities, or with these", () => {
  expect(lackingCapabilities(volumes, status("000001ffffffffff"))).toEqual([]);
  expect(lackingCapabilities(volumes, status("000000000000000b"))).toEqual([]);
});

it("reports the missing capabilities of a container's root that has only one", () => {
  // NET_ADMIN.
  expect(lackingCapabilities(volumes, status("0000000000001000"))).toEqual(volumes);
  expect(lackingCapabilities(volumes, status("0000000000000003"))).toEqual(["FOWNER"]);
});

it("reports nothing as missing if the kernel does not list capabilities", () => {
  expect(lackingCapabilities(volumes, "Name:\tnode\n")).toEqual([]);
});
