// A picture in a request: its bytes are in a data: URL. Nothing is fetched.
import { isJsonObject } from "../../proto/json-object.ts";
import { invalid, unusable } from "./request-error.ts";
import type { EngineImage } from "./text-engine.ts";

/** `part`: {"type":"image_url","image_url":{"url":..,"detail":..}}. Throws RequestError. */
export function readImagePart(part: Readonly<Record<string, unknown>>, at: string): EngineImage {
  const image = part["image_url"];
  const url = isJsonObject(image) ? image["url"] : image;
  const detail = isJsonObject(image) ? (image["detail"] ?? "auto") : "auto";
  if (typeof url !== "string") throw invalid(`${at}.image_url.url`, `${at}.image_url.url must be a string`);
  if (detail !== "auto" && detail !== "low" && detail !== "high")
    throw invalid(`${at}.image_url.detail`, `${at}.image_url.detail must be auto, low or high`);
  return { ...readDataAddress(url, `${at}.image_url.url`), isCoarse: detail === "low" };
}

/** A longer head is none. Searched in the whole text, a data URI of 50 MB without a payload would block the server. */
const maxHeadLength = 1024;

/** Throws RequestError. */
export function readDataAddress(url: unknown, at: string): EngineImage {
  if (typeof url !== "string") throw invalid(at, `${at} must be a string: a picture as a data: address`);
  if (/^https?:/i.test(url))
    throw unusable(at, `${at}: addresses are not opened here; send the picture itself, as a data: address`);
  const head = /^data:[^,]*;base64,/i.exec(url.slice(0, maxHeadLength))?.[0];
  const bytes = Buffer.from(head === undefined ? "" : url.slice(head.length), "base64");
  if (bytes.length === 0)
    throw unusable(at, `${at} is no data: address with base64 in it, such as data:image/png;base64,..`);
  return { bytes, isCoarse: false, param: at };
}
