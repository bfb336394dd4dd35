import { describe, expect, it } from "vitest";
import { readWeightsAddress } from "../../../proto/weights-address.ts";

describe("an address of weights", () => {
  it("names a hub repository, a bucket, an artifact or a repository of ModelScope", () => {
    expect(readWeightsAddress("acme/tiny")).toEqual({ kind: "hub", repo: "acme/tiny" });
    expect(readWeightsAddress("s3://models/acme/tiny/")).toEqual({
      kind: "s3",
      bucket: "models",
      prefix: "acme/tiny",
      region: undefined,
      endpoint: undefined,
    });
    expect(readWeightsAddress("s3://models?region=eu-west-1&endpoint=https://s3.example.com:9000/")).toMatchObject({
      prefix: "",
      region: "eu-west-1",
      endpoint: "https://s3.example.com:9000",
    });
    expect(readWeightsAddress("oci://ghcr.io/acme/tiny:v1")).toEqual({
      kind: "oci",
      registry: "ghcr.io",
      name: "acme/tiny",
      reference: "v1",
    });
    expect(readWeightsAddress("oci://127.0.0.1:5000/tiny")).toMatchObject({
      registry: "127.0.0.1:5000",
      reference: "latest",
    });
    const digest = `sha256:${"a".repeat(64)}`;
    expect(readWeightsAddress(`oci://ghcr.io/acme/tiny@${digest}`)).toMatchObject({ reference: digest });
    expect(readWeightsAddress("modelscope://acme/tiny")).toEqual({ kind: "modelscope", repo: "acme/tiny" });
  });

  it.each([
    "tiny",
    "acme/../tiny",
    "ftp://acme/tiny",
    "s3://A/b",
    "s3://models/../secrets",
    "s3://models/a//b",
    "s3://models/a?endpoint=https://user:pw@host",
    "s3://models/a?endpoint=https://host/path",
    "s3://models/a?other=1",
    "s3://models/a?region=..%2f",
    "s3://models--use1-az4--x-s3/a",
    "s3://models--use1-az4--xa-s3/a",
    "oci://ghcr.io",
    "oci://ghcr.io/Acme/Tiny",
    "oci://ghcr.io/acme/tiny:v1:v2",
    "oci://ghcr.io/acme/../tiny",
    "oci://user@ghcr.io/acme/tiny",
    "oci://ghcr.io/acme/tiny@sha512:00",
    "modelscope://tiny",
    `s3://models/${"a".repeat(600)}`,
  ])("is refused with the form that works: %s", (text) => {
    expect(readWeightsAddress(text)).toMatchObject({ kind: "invalid", why: expect.stringMatching(/^(it|its) /) });
  });
});
