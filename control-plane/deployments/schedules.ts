// Minimum numbers of instances by local time: `min 2 on weekdays from 08:00 to 18:00 in Europe/Berlin`. Evaluated on the local
// clock of an instant, so changes to and from summer time need no case of their own.

export const weekdays = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"] as const;
export type Weekday = (typeof weekdays)[number];

export const maxSchedules = 20;

export interface Schedule {
  /** Days on which it begins. */
  readonly days: readonly Weekday[];
  /** Local time, HH:MM. */
  readonly from: string;
  /** Exclusive, HH:MM; at or before `from`: on the next day. 24:00: the end of the day. */
  readonly to: string;
  /** IANA name. */
  readonly timeZone: string;
  readonly minInstances: number;
}

/** The highest minimum of the schedules that apply at this time; 0: none does. */
export function scheduledMin(schedules: readonly Schedule[], unixMs: number): number {
  return Math.max(0, ...schedules.filter((one) => applies(one, unixMs)).map((one) => one.minInstances));
}

function applies({ days, from, to, timeZone }: Schedule, unixMs: number): boolean {
  const { day, minutes } = localTime(timeZone, unixMs);
  const [start, end] = [minutesOf(from), minutesOf(to)];
  const isOn = (index: number) => days.includes(weekdays[(index + 7) % 7] as Weekday);
  if (start < end) return isOn(day) && minutes >= start && minutes < end;
  return (isOn(day) && minutes >= start) || (isOn(day - 1) && minutes < end);
}

const minutesOf = (time: string) => Number(time.slice(0, 2)) * 60 + Number(time.slice(3));

export function isTimeZone(name: string): boolean {
  try {
    formatOf(name);
    return true;
  } catch {
    return false;
  }
}

const formats = new Map<string, Intl.DateTimeFormat>();

/** Throws a RangeError for an unknown zone. */
function formatOf(timeZone: string): Intl.DateTimeFormat {
  const known = formats.get(timeZone);
  if (known) return known;
  const format = new Intl.DateTimeFormat("en-GB", {
    timeZone,
    weekday: "short",
    hour: "2-digit",
    minute: "2-digit",
    hourCycle: "h23",
  });
  // There are about 600 zones.
  if (formats.size < 1_000) formats.set(timeZone, format);
  return format;
}

function localTime(timeZone: string, unixMs: number): { readonly day: number; readonly minutes: number } {
  const parts = new Map(
    formatOf(timeZone)
      .formatToParts(unixMs)
      .map(({ type, value }) => [type, value]),
  );
  const day = weekdays.indexOf((parts.get("weekday") ?? "").toLowerCase() as Weekday);
  return { day, minutes: Number(parts.get("hour")) * 60 + Number(parts.get("minute")) };
}
