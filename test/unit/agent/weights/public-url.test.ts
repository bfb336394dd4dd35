import { expect, it } from "vitest";
import { networksIn } from "../../../../agent/config.ts";
import { readPublicUrl } from "../../../../agent/weights/public-web.ts";
import { addressTest } from "../../../../proto/address-rules.ts";

it.each([
  ["no url", /is no URL/],
  [`https://good.example/${"x".repeat(4096)}`, /more than 4096 characters/],
  ["http://good.example/a", /begin with https/],
  ["file:///etc/passwd", /is no URL/],
  ["ftp://good.example/a", /begin with https/],
  ["https://good.example:22/a", /port must be 443 or 8443/],
  ["https://ada:secret@good.example/a", /a user or a password/],
  ["https://127.1/a", /not a public address/],
  ["https://2130706433/", /not a public address/],
  ["https://0xa9fea9fe/latest/meta-data/", /not a public address/],
  ["https://[::ffff:10.0.0.1]/", /not a public address/],
  ["https://[64:ff9b::7f00:1]/", /not a public address/],
])("refuses %s before anything is sent", (url, why) => {
  expect(() => readPublicUrl(url, { allowsPrivate: false, blocked: [] })).toThrow(why);
});

it("accepts an ordinary address unchanged", () => {
  expect(readPublicUrl("https://good.example/a.safetensors?key=1", { allowsPrivate: false, blocked: [] }).search).toBe(
    "?key=1",
  );
});

it("refuses the networks that the operator blocks, whatever else is allowed", () => {
  const blocked = networksIn("93.184.216.99, 10.1.0.0/16,2606:4700::/32") ?? [];
  const rules = { allowsPrivate: true, blocked };
  const ones = ["93.184.216.99", "::ffff:93.184.216.99", "10.1.2.3", "2606:4700::1", "93.184.216.98", "10.2.0.1"];
  expect(ones.filter(addressTest(rules))).toEqual(["93.184.216.98", "10.2.0.1"]);
  expect(() => readPublicUrl("https://93.184.216.99/a", rules)).toThrow(/not a public address/);
  for (const none of ["example.com", "10.0.0.0/33", "10.0.0.0/x"]) expect(networksIn(none)).toBeUndefined();
});
