import { Socket } from "node:net";
import { describe, expect, it } from "vitest";
import { InvalidApiKey } from "../../../../../control-plane/accounts/errors.ts";
import { authenticate } from "../../../../../control-plane/http/accounts/authenticate.ts";
import { AddressLimits, defaultAddressLimits } from "../../../../../control-plane/http/connections/address-limits.ts";
import { ada, apiKey, FakeAuthenticator } from "../../../../fakes/ports.ts";

const entrance = {
  authenticator: new FakeAuthenticator(),
  addresses: new AddressLimits(defaultAddressLimits, () => false),
};
const read = (headers: Record<string, string>) => authenticate(entrance, headers, "127.0.0.1", new Socket());

describe("a key", () => {
  it.each([
    [{ authorization: `Bearer ${apiKey}` }],
    [{ authorization: `bEARER ${apiKey} ` }],
    [{ "xi-api-key": apiKey }],
    [{ "x-api-key": apiKey }],
    [{ authorization: `Bearer ${apiKey}`, "xi-api-key": apiKey, "x-api-key": apiKey }],
    [{ authorization: `Bearer ${apiKey}`, "xi-api-key": "" }],
  ])("is read from %j", (headers) => {
    expect(read(headers as unknown as Record<string, string>)).toBe(ada);
  });

  it.each([
    [{}],
    [{ authorization: apiKey }],
    [{ authorization: "Bearer" }],
    [{ authorization: `Basic ${apiKey}`, "x-api-key": apiKey }],
    [{ authorization: `Bearer ${apiKey}`, "xi-api-key": `${apiKey}x` }],
    [{ "xi-api-key": apiKey, "x-api-key": "other" }],
  ])("is not read from %j", (headers) => {
    expect(() => read(headers as unknown as Record<string, string>)).toThrow(InvalidApiKey);
  });
});
