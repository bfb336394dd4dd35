// Reads the settings of rented containers from the agent's environment. Without an image this host offers no rentals.

export type RentalSettings = ReturnType<typeof readRentalSettings>;

const gib = 1024 ** 3;
/** Mail submission: short-lived rentals could send spam and damage the host's reputation. */
const mailPorts = "25 465 587";
const cidrForm = /^\d{1,3}(\.\d{1,3}){3}(\/\d{1,2})?$/;

/** `problem` is called for every unusable value. */
export function readRentalSettings(text: (key: string) => string | undefined, problem: (sentence: string) => void) {
  const list = (key: string, otherwise = "") => (text(key) ?? otherwise).split(/[\s,]+/).filter((one) => one !== "");
  const images = new Map(
    list("STOKER_RENTAL_IMAGES").map((entry) => {
      const [name = "", reference = name] = entry.split("=");
      return [name, reference] as const;
    }),
  );
  const [, first = "", last = ""] = /^(\d{1,5})-(\d{1,5})$/.exec(text("STOKER_RENTAL_PORTS") ?? "22000-22999") ?? [];
  const ports = { first: Number(first), last: Number(last) };
  if (!(ports.first >= 1 && ports.first <= ports.last && ports.last <= 65_535))
    problem("STOKER_RENTAL_PORTS must be a range of ports such as 22000-22999");
  const [dns, denied] = [list("STOKER_RENTAL_DNS"), list("STOKER_RENTAL_DENY")];
  if (!dns.every((one) => /^[\da-f.:]+$/i.test(one))) problem("STOKER_RENTAL_DNS must be IP addresses");
  if (!denied.every((one) => cidrForm.test(one)))
    problem("STOKER_RENTAL_DENY must be IPv4 networks such as 198.51.100.0/24");
  const portList = list("STOKER_RENTAL_DENY_PORTS", mailPorts);
  const deniedPorts = portList.length === 1 && portList[0] === "none" ? [] : portList.map(Number);
  if (!deniedPorts.every((port) => Number.isInteger(port) && port >= 1 && port <= 65_535))
    problem("STOKER_RENTAL_DENY_PORTS must be TCP ports such as 25 465 587, or none");
  const disk = Number(text("STOKER_RENTAL_DISK_GB") ?? 0);
  if (!(disk >= 0 && disk <= 1_000_000)) problem("STOKER_RENTAL_DISK_GB must be a number of gigabytes");
  const devices = text("STOKER_RENTAL_DEVICES") ?? "nvidia";
  if (devices !== "nvidia" && devices !== "none") problem("STOKER_RENTAL_DEVICES must be nvidia or none");
  return {
    /** Images that customers may rent, by the name they use. Empty: this host offers none. */
    images: images as ReadonlyMap<string, string>,
    /** Networks of rentals are /28s of it. */
    subnet: text("STOKER_RENTAL_SUBNET") ?? "10.232.0.0/16",
    /** SSH is published on a port of this range, both ends included. */
    ports,
    /** Address of this host on which those ports are published. */
    bind: text("STOKER_RENTAL_BIND") ?? "0.0.0.0",
    /** Address at which customers reach them; undefined: the host of the data path. */
    address: text("STOKER_RENTAL_ADDRESS"),
    /** Name servers of rentals: public ones, because private addresses are out of their reach. */
    dns: dns.length > 0 ? dns : ["1.1.1.1", "9.9.9.9"],
    /** IPv4 networks out of reach besides private and link-local ones. */
    denied,
    /** TCP ports that are blocked towards the internet; by default those of mail. */
    deniedPorts,
    /** Limit of the writable root, if the engine's storage supports it; 0: none. */
    diskBytes: Math.floor(disk * gib),
    /** `none` hands no GPU into the container: for tests on machines whose GPUs are not real. */
    devices: devices === "none" ? ("none" as const) : ("nvidia" as const),
  };
}
