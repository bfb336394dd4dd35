import { describe, expect, it } from "vitest";
import { readConfig } from "../../../control-plane/config.ts";

const database = "postgresql://stoker@127.0.0.1:5432/stoker";

describe("the configuration of the control plane", () => {
  it("needs nothing but a database", () => {
    const config = readConfig({ DATABASE_URL: database });
    expect(config.http).toEqual({ host: "127.0.0.1", port: 8080 });
    expect(config.rpc.port).toBe(0);
    expect(config).toMatchObject({
      databaseUrl: database,
      logLevel: "info",
      stopsWithParent: false,
      hostClockScale: 1,
    });
  });

  it("tells every problem at once", () => {
    const env = {
      STOKER_PORT: "eighty",
      STOKER_RPC_PORT: "70000",
      STOKER_LOG_LEVEL: "loud",
      DATABASE_URL: "mysql://x",
    };
    for (const key of Object.keys(env)) expect(() => readConfig(env)).toThrow(key);
  });

  it("stores files beside its secrets, or in a bucket when one is named", () => {
    const read = (env: Record<string, string>) =>
      readConfig({ DATABASE_URL: database, STOKER_SECRETS_DIR: "/data/secrets", ...env }).files;
    expect(read({})).toMatchObject({ folder: "/data/files", s3: undefined });
    const bucket = { STOKER_FILES_S3_BUCKET: "b", STOKER_FILES_S3_PREFIX: "/stoker/" };
    expect(read(bucket).s3).toMatchObject({ bucket: "b", prefix: "stoker/", region: "us-east-1" });
    expect(() => read({ ...bucket, STOKER_FILES_S3_ENDPOINT: "s3.example.com" })).toThrow(
      "STOKER_FILES_S3_ENDPOINT must be an origin such as https://s3.example.com.",
    );
  });

  it("takes proxies as addresses and networks, and nobody as one by default", () => {
    const read = (list: string) => readConfig({ DATABASE_URL: database, STOKER_TRUSTED_PROXIES: list }).trustedProxies;
    expect(readConfig({ DATABASE_URL: database }).trustedProxies).toEqual([]);
    expect(read("10.0.0.5, 192.168.0.0/16,2001:db8::/32")).toEqual(["10.0.0.5", "192.168.0.0/16", "2001:db8::/32"]);
    for (const wrong of ["proxy", "10.0.0.0/33", "10.0.0.0/0", "::/0", "10.0.0.0/8/8", "true", "10.0.0.0/"])
      expect(() => read(wrong), wrong).toThrow(/STOKER_TRUSTED_PROXIES/);
  });

  it("reads the formats in which requests are passed on", () => {
    const read = (list?: string) =>
      readConfig({ DATABASE_URL: database, ...(list && { STOKER_PASSED_FORMATS: list }) }).passedFormats;
    expect([undefined, "none", "messages", "responses, messages"].map(read)).toEqual([
      undefined,
      [],
      ["messages"],
      ["responses", "messages"],
    ]);
    expect(() => read("chat")).toThrow(/STOKER_PASSED_FORMATS must be none, or responses/);
  });

  it("accepts allowed origins as browsers send them, and has none by default", () => {
    const read = (list: string) => readConfig({ DATABASE_URL: database, STOKER_CORS_ORIGINS: list }).corsOrigins;
    expect(readConfig({ DATABASE_URL: database }).corsOrigins).toEqual([]);
    expect(read("https://app.example.com, http://localhost:3000")).toEqual([
      "https://app.example.com",
      "http://localhost:3000",
    ]);
    expect(read("*")).toEqual(["*"]);
    for (const wrong of [
      "app.example.com",
      "https://app.example.com/",
      "https://App.example.com",
      "https://*.example.com",
      "null",
    ])
      expect(() => read(wrong), wrong).toThrow(/STOKER_CORS_ORIGINS/);
  });

  it("has dashboards on this machine's own names while nobody else reaches it, else where it is told", () => {
    const read = (env: Record<string, string>) => readConfig({ DATABASE_URL: database, ...env }).dashboardUrl;
    expect(read({})).toBe("http://*.localhost");
    expect(read({ STOKER_HOST: "0.0.0.0" })).toBeUndefined();
    expect(read({ STOKER_TRUSTED_PROXIES: "127.0.0.1" })).toBeUndefined();
    expect(read({ STOKER_PUBLIC_URL: "https://stoker.example.com" })).toBeUndefined();
    const [url, own] = ["https://*.dash.example.com:8443", "https://stoker.example.com"];
    expect(read({ STOKER_DASHBOARD_URL: url, STOKER_PUBLIC_URL: own })).toBe(url);
    for (const wrong of ["https://dash.example.com", "*.dash.example.com", "https://a.*.com", "https://*.a.com/x"])
      expect(() => read({ STOKER_DASHBOARD_URL: wrong }), wrong).toThrow(/STOKER_DASHBOARD_URL must be like/);
    for (const wrong of ["https://*.example.com", "https://*.stoker.example.com"])
      expect(() => read({ STOKER_DASHBOARD_URL: wrong, STOKER_PUBLIC_URL: own }), wrong).toThrow(/must not cover/);
  });

  it("lets nobody sign up unless it is told so", () => {
    expect(readConfig({ DATABASE_URL: database }).isSignUpOpen).toBe(false);
    expect(readConfig({ DATABASE_URL: database, STOKER_SIGN_UP: "open" }).isSignUpOpen).toBe(true);
    expect(() => readConfig({ DATABASE_URL: database, STOKER_SIGN_UP: "yes" })).toThrow(/open or closed/);
  });

  it("says what is missing without a database", () => {
    expect(() => readConfig({})).toThrow(/DATABASE_URL is required/);
    expect(() => readConfig({ DATABASE_URL: "" })).toThrow(/DATABASE_URL is required/);
  });
});
