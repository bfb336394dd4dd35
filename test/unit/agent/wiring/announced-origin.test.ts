import { describe, expect, it } from "vitest";
import { readConfig } from "../../../../agent/config.ts";
import { announcedOrigin } from "../../../../agent/wiring/agent-file.ts";

const needed = { STOKER_AGENT_DATA: "/var/lib/stoker-agent", STOKER_CONTROL: "10.0.0.1:9090" };
const near = { STOKER_INGRESS_HOST: "127.0.0.1" };
const far = { STOKER_INGRESS_HOST: "10.0.0.7" };
const announced = (env: Record<string, string>) => announcedOrigin(readConfig({ ...needed, ...env }), 9100);

describe("the data path of an agent", () => {
  it.each([
    ["on this machine alone is plain HTTP", near, "http://127.0.0.1:9100"],
    [
      "on this machine alone is TLS where that is asked for",
      { ...near, STOKER_INGRESS_TLS: "on" },
      "https://127.0.0.1:9100",
    ],
    ["that others reach is TLS", far, "https://10.0.0.7:9100"],
    ["on every address is TLS", { STOKER_INGRESS_HOST: "0.0.0.0" }, "https://127.0.0.1:9100"],
    ["on every address of both kinds is TLS", { STOKER_INGRESS_HOST: "::" }, "https://[::1]:9100"],
    [
      "that others reach by something before it is TLS",
      { ...near, STOKER_ADVERTISE: "http://10.0.0.7:9100" },
      "https://10.0.0.7:9100",
    ],
    [
      "says what it speaks, whatever scheme an older setting names",
      { ...far, STOKER_ADVERTISE: "http://host.example.com" },
      "https://host.example.com:80",
    ],
    [
      "keeps an address without a port",
      { ...far, STOKER_ADVERTISE: "https://host.example.com" },
      "https://host.example.com",
    ],
    [
      "is plain where its operator says so",
      { ...far, STOKER_ADVERTISE: "http://10.0.0.7:9100", STOKER_INGRESS_TLS: "off" },
      "http://10.0.0.7:9100",
    ],
  ])("%s", (_, env, origin) => {
    expect(announced(env)).toBe(origin);
  });

  it("is not announced as TLS where it speaks none", () => {
    expect(() => announced({ ...far, STOKER_ADVERTISE: "https://10.0.0.7:9100", STOKER_INGRESS_TLS: "off" })).toThrow(
      "STOKER_ADVERTISE begins with https://, but this data path speaks no TLS",
    );
    expect(() => announced({ ...near, STOKER_ADVERTISE: "https://127.0.0.1:9100" })).toThrow(
      "on this machine alone it does with STOKER_INGRESS_TLS=on",
    );
    expect(() => announced({ STOKER_INGRESS_TLS: "maybe" })).toThrow("STOKER_INGRESS_TLS must be one of auto, on, off");
  });

  it("has no signed certificate without a control plane", () => {
    const alone = { STOKER_AGENT_DATA: "/tmp/a", STOKER_LOCAL_DESIRED: "/tmp/desired.json" };
    expect(readConfig({ ...alone, STOKER_INGRESS_HOST: "127.0.0.1" })).toMatchObject({
      ingressTls: false,
      isPlain: false,
    });
    expect(() => readConfig({ ...alone, STOKER_INGRESS_TLS: "on" })).toThrow("needs a control plane");
  });
});
