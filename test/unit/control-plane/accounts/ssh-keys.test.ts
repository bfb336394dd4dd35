import { describe, expect, it } from "vitest";
import { fingerprintOf } from "../../../../control-plane/accounts/ssh-keys.ts";

// Made with `ssh-keygen -t ed25519`; the fingerprint is what `ssh-keygen -l` printed.
const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPFlUjaoSzWFXteBcoaLBxI4KwOICopptVNPn8wAb4hf";
const fingerprint = "SHA256:yVKSNZbTUUwLUqxspD4YNX4MZOeC5RQlBPRS7MwY+/E";

describe("an SSH public key", () => {
  it("has the fingerprint that ssh-keygen prints, with or without its comment", () => {
    expect(fingerprintOf(key)).toBe(fingerprint);
    expect(fingerprintOf(`${key} ada@laptop\n`)).toBe(fingerprint);
  });

  it.each([
    ["a private key", "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNz\n-----END", /private key/],
    ["two keys", `${key}\n${key}`, /single line/],
    ["options before the key", `command="sh" ${key}`, /begin with its type/],
    ["a type nobody knows", key.replace("ssh-ed25519", "ssh-dss"), /begin with its type/],
    ["a type that is not the blob's", key.replace("ssh-ed25519", "ssh-rsa"), /incomplete or damaged/],
    ["a cut key", key.slice(0, -4), /incomplete or damaged/],
    ["a blob that is no base64", "ssh-ed25519 ????", /incomplete or damaged/],
    ["a type alone", "ssh-ed25519", /incomplete or damaged/],
  ])("is refused with a reason when it is %s", (_what, text, reason) => {
    expect(() => fingerprintOf(text)).toThrow(expect.objectContaining({ code: "bad_ssh_key" }));
    expect(() => fingerprintOf(text)).toThrow(reason);
  });
});
