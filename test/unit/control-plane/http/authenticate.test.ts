import { describe, expect, it } from "vitest";
import { InvalidApiKey } from "../../../../control-plane/accounts/errors.ts";
import { authenticate } from "../../../../control-plane/http/authenticate.ts";
import { ada, apiKey, FakeAuthenticator } from "../../../fakes/ports.ts";

const read = (headers: Record<string, string>) => authenticate(new FakeAuthenticator(), headers, "127.0.0.1");

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
