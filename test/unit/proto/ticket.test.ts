import { createHmac, randomBytes } from "node:crypto";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { openSealed, signTicket, type Ticket, ticketText, verifyTicket } from "../../../proto/ticket.ts";

const nowMs = 1_786_000_000_000;
const ticket = (change: Partial<Ticket> = {}): Ticket => ({
  requestId: "r".repeat(24),
  attempt: 1,
  hostId: "host",
  instanceId: "instance-1",
  deployId: "DpM4BkrjEspUwmTa",
  admittedAtMs: nowMs,
  expiresAtMs: nowMs + 60_000,
  account: "u:1",
  keyId: "key",
  replicaId: "replica",
  model: "org/модель-漢",
  leaseIds: ["lease"],
  hold: "12345678901234567890",
  permits: 1,
  inputTokensBound: 10,
  inputTokensEstimate: 3,
  maxTokens: 20,
  stream: true,
  usage: "merge",
  rates: ["1", "2", "3"],
  priceVersion: 1,
  ...change,
});

describe("a ticket", () => {
  it.each([1, 32, 64, 65, 200])("is signed by plain HMAC-SHA256 with a key of %i bytes", (length) => {
    const key = randomBytes(length);
    for (const model of ["a", "漢".repeat(5000), "a\u007f"]) {
      const header = signTicket(ticket({ model }), key);
      const json = header.slice(44);
      // A header may hold neither DEL nor what is not ASCII.
      expect(header).toMatch(/^[\x20-\x7e]+$/);
      expect(header.slice(0, 43)).toBe(createHmac("sha256", key).update(json).digest("base64url"));
      expect(verifyTicket(header, [key], nowMs)).toEqual(ticket({ model }));
    }
  });

  it("is header text of ASCII alone, whatever the model is called", () => {
    expect(signTicket(ticket(), randomBytes(32))).toMatch(/^[\x20-\x7e]+$/);
  });

  it("is good with the current and the previous key, and until its time", () => {
    const [old, current] = [randomBytes(32), randomBytes(32)];
    const header = signTicket(ticket(), old);
    expect(verifyTicket(header, [current, old], nowMs)).toEqual(ticket());
    expect(verifyTicket(header, [current], nowMs)).toBe("bad_signature");
    expect(verifyTicket(header, [], nowMs)).toBe("bad_signature");
    expect(verifyTicket(header, [old], nowMs + 60_001)).toBe("expired");
  });

  it("bills by the bound without an estimate of its input, as an older control plane signs it", () => {
    const key = randomBytes(32);
    const { inputTokensEstimate: _, ...older } = ticket();
    const header = signTicket(older as Ticket, key);
    expect(header).not.toContain("inputTokensEstimate");
    expect(verifyTicket(header, [key], nowMs)).toEqual(ticket({ inputTokensEstimate: older.inputTokensBound }));
  });

  it("is refused once a character of it was changed", () => {
    const key = randomBytes(32);
    const header = signTicket(ticket(), key);
    expect(verifyTicket(header.replace('"permits":1', '"permits":9'), [key], nowMs)).toBe("bad_signature");
    const first = header.startsWith("A") ? "B" : "A";
    expect(verifyTicket(first + header.slice(1), [key], nowMs)).toBe("bad_signature");
    expect(verifyTicket("", [key], nowMs)).toBe("malformed");
    expect(verifyTicket(`short.${header}`, [key], nowMs)).toBe("malformed");
  });
});

describe("the seal of a ticket", () => {
  const seal = { version: 3, bytes: randomBytes(32) };
  const keyOf = (version: number) => (version === 3 ? seal.bytes : undefined);
  const sealed = (change: Partial<Ticket> = {}) => ticketText(signTicket(ticket(change), randomBytes(32), seal));

  it("opens to the ticket, at any time after its expiry, and the agent accepts the same text", () => {
    const key = randomBytes(32);
    const header = signTicket(ticket({ model: 'a/ö"\u2028' }), key, seal);
    expect(openSealed(ticketText(header), keyOf)).toMatchObject(ticket({ model: 'a/ö"\u2028' }));
    expect(verifyTicket(header, [key], nowMs)).toMatchObject(ticket({ model: 'a/ö"\u2028' }));
  });

  it("does not open with another key, without a seal, or without the key that it names", () => {
    expect(openSealed(sealed(), () => randomBytes(32))).toBe("bad_seal");
    expect(openSealed(ticketText(signTicket(ticket(), seal.bytes)), keyOf)).toBe("unsealed");
    expect(openSealed(sealed(), () => undefined)).toBe("unknown_key");
    expect(openSealed("", keyOf)).toBe("unsealed");
  });

  it("does not open after any byte is changed, removed or added", () => {
    const text = sealed();
    fc.assert(
      fc.property(fc.nat({ max: text.length - 1 }), fc.string({ maxLength: 2 }), (at, other) => {
        const changed = text.slice(0, at) + other + text.slice(at + 1);
        if (changed !== text) expect(typeof openSealed(changed, keyOf)).toBe("string");
      }),
    );
  });

  it("does not open for characters with the same low byte as the sealed ones", () => {
    const text = sealed();
    for (const at of [1, 5, text.indexOf('"hold"'), text.length - 60]) {
      const alike = String.fromCharCode(text.charCodeAt(at) + 256);
      expect(openSealed(text.slice(0, at) + alike + text.slice(at + 1), keyOf)).toBe("unsealed");
    }
  });
});
