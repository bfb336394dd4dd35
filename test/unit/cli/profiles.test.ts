import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { CliError } from "../../../cli/cli-error.ts";
import { findConnection } from "../../../cli/connection.ts";
import { configPath, readConfig, removeProfile, storeProfile, writeConfig } from "../../../cli/profiles.ts";

function home(): { readonly XDG_CONFIG_HOME: string; readonly XDG_STATE_HOME: string } {
  const folder = mkdtempSync(join(tmpdir(), "stoker-profiles-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return { XDG_CONFIG_HOME: folder, XDG_STATE_HOME: folder };
}

const one = { hosts: ["http://one:1"], key: "stk_one" };
const two = { hosts: ["http://two:2", "http://three:3"], key: "stk_two" };

function withBoth() {
  const env = home();
  writeConfig(env, { current: "one", profiles: { one, two } });
  return env;
}

const connect = (flags: Parameters<typeof findConnection>[0], env: NodeJS.ProcessEnv) => {
  const found = findConnection(flags, env, "/nonexistent", "/nonexistent");
  return [found.host, found.key(), found.profile];
};

describe("the file of profiles", () => {
  it("is readable only by its user, also if it replaces another", () => {
    const env = home();
    mkdirSync(join(env.XDG_CONFIG_HOME, "stoker"));
    writeFileSync(configPath(env), '{"profiles":{}}', { mode: 0o644 });
    storeProfile(env, undefined, one);
    expect(statSync(configPath(env)).mode & 0o777).toBe(0o600);
  });

  it("takes over the file of earlier versions and removes it", () => {
    const env = home();
    const old = join(env.XDG_CONFIG_HOME, "stoker", "profile");
    mkdirSync(join(old, ".."));
    writeFileSync(old, "STOKER_HOST=http://two:2,http://three:3\nSTOKER_API_KEY=stk_two\n");
    expect(readConfig(env)).toEqual({ current: "default", profiles: { default: two } });
    expect(connect({}, env)).toEqual(["http://two:2", "stk_two", "default"]);
    storeProfile(env, "new", one);
    expect(readConfig(env)).toEqual({ current: "new", profiles: { default: two, new: one } });
    expect(existsSync(old)).toBe(false);
  });

  it("is reported with its path if it is damaged", () => {
    const env = withBoth();
    for (const text of ["{", "[]", '{"profiles":{"one":{}}}']) {
      writeFileSync(configPath(env), text);
      expect(() => readConfig(env), text).toThrow(configPath(env));
    }
  });
});

describe("a stored key", () => {
  it("replaces the key of the same server, and otherwise gets a profile named after the server", () => {
    const env = home();
    expect(storeProfile(env, undefined, one)).toBe("default");
    expect(storeProfile(env, undefined, { ...one, key: "stk_next" })).toBe("default");
    expect(storeProfile(env, undefined, two)).toBe("two:2");
    expect(readConfig(env).profiles["default"]).toEqual({ ...one, key: "stk_next" });
    expect(readConfig(env).current).toBe("two:2");
    expect(readFileSync(configPath(env), "utf8")).not.toContain("stk_one");
  });

  it("gets the given name, which must be a name", () => {
    const env = home();
    expect(storeProfile(env, "prod", one)).toBe("prod");
    expect(storeProfile({ ...env, STOKER_PROFILE: "next" }, undefined, one)).toBe("next");
    expect(() => storeProfile(env, "a b", one)).toThrow(CliError);
    expect(() => storeProfile(env, "", one)).toThrow(CliError);
  });

  it("leaves no profile in use when the one in use is removed", () => {
    const env = withBoth();
    removeProfile(env, "one");
    expect(readConfig(env)).toEqual({ profiles: { two } });
    expect(() => connect({}, env)).toThrow("No API key");
  });
});

describe("the profile of a command", () => {
  it("is the flag's, then STOKER_PROFILE's, then the one in use", () => {
    const env = withBoth();
    expect(connect({}, env)).toEqual(["http://one:1", "stk_one", "one"]);
    expect(connect({}, { ...env, STOKER_PROFILE: "two" })).toEqual(["http://two:2", "stk_two", "two"]);
    expect(connect({ profile: "one" }, { ...env, STOKER_PROFILE: "two" })).toEqual(["http://one:1", "stk_one", "one"]);
  });

  it("wins over STOKER_HOST and STOKER_API_KEY only if the flag names it", () => {
    const env = { ...withBoth(), STOKER_HOST: "http://four:4", STOKER_API_KEY: "stk_env" };
    expect(connect({}, env)).toEqual(["http://four:4", "stk_env", undefined]);
    expect(connect({}, { ...env, STOKER_PROFILE: "two" })).toEqual(["http://four:4", "stk_env", undefined]);
    expect(connect({ profile: "two" }, env)).toEqual(["http://two:2", "stk_two", "two"]);
  });

  it("sends its key only to its own servers", () => {
    const env = withBoth();
    expect(() => connect({ host: "http://two:2" }, env)).toThrow("No API key for http://two:2");
    expect(connect({ host: "http://two:2", profile: "two" }, env)).toEqual(["http://two:2", "stk_two", "two"]);
    expect(() => connect({ host: "http://four:4", profile: "two" }, env)).toThrow("No API key for http://four:4");
  });

  it("is reported if it does not exist, unless the command creates it", () => {
    const env = withBoth();
    expect(() => connect({ profile: "three" }, env)).toThrow("Profile three not found. Profiles: one, two.");
    expect(() => connect({}, { ...env, STOKER_PROFILE: "three" })).toThrow(CliError);
    expect(() => connect({ profile: "toString" }, env)).toThrow(CliError);
    const created = findConnection(
      { profile: "three", host: "http://four:4", isNewProfile: true },
      env,
      "/nonexistent",
      "/nonexistent",
    );
    expect(created.host).toBe("http://four:4");
  });
});
