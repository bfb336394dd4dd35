import { expect, it } from "vitest";
import { dataPathSettings } from "../../../cli/commands/node-enrolment.ts";

const own = ["127.0.0.1", "10.0.0.7", "fd00::7"];

it.each([
  ["https://10.0.0.7:9100", "10.0.0.7", "9100"],
  ["https://[fd00::7]:9100", "fd00::7", "9100"],
  ["http://127.0.0.1:9100/", "127.0.0.1", "9100"],
  // The address of a router in front, and a name.
  ["https://203.0.113.9:9100", "0.0.0.0", "9100"],
  ["https://gpu-7.example:9443", "0.0.0.0", "9443"],
])("derives from the address %s the listen address %s, port %s", (advertise, host, port) => {
  expect(dataPathSettings(advertise, own)).toEqual({ STOKER_INGRESS_HOST: host, STOKER_INGRESS_PORT: port });
});

it.each([undefined, "https://10.0.0.7", "10.0.0.7:9100", "nonsense"])(
  "derives no listen address from %s",
  (advertise) => {
    expect(dataPathSettings(advertise, own)).toEqual({});
  },
);
