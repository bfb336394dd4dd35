// Images in OpenAI's format.
import type { FastifyRequest } from "fastify";
import { FormFile } from "../body/form-body.ts";
import { mediaLimitBytes } from "../body/json-body.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { fileMissing, partRepeated, partTooLarge } from "../errors/errors.ts";
import { fileOf } from "./native/media.ts";
import { compatPost, type Relays } from "./relay-route.ts";
import { images, sizeFrom } from "./tasks/images.ts";
import { ImageEditRequest, ImageRequest, ImagesAnswer, ImageVariationRequest } from "./tasks-schemas.ts";

const common = { ...compatPost, answer: ImagesAnswer } as const;

export function addImageRoutes(endpoints: Endpoints, relays: Relays): void {
  endpoints.addInference(
    { ...common, path: "/v1/compat/images/generations", summary: "Generate images", body: ImageRequest },
    relays.json((fields) => {
      const { model, prompt, n, size, user, quality, style } = fields as unknown as ImageRequest;
      return images({ model, n: n ?? 1, ...sizeFrom(size), prompt, fields: { user, quality, style } });
    }),
  );

  const forms = { ...common, takes: "forms", wrappedIn: "inp", bodyLimitBytes: mediaLimitBytes } as const;
  endpoints.addRaw(
    {
      ...forms,
      path: "/v1/compat/images/variations",
      summary: "Create variations of an image",
      body: ImageVariationRequest,
    },
    relays.task((request) => ({ completion: read(request, "/v1/images/variations") })),
  );
  endpoints.addRaw(
    { ...forms, path: "/v1/compat/images/edits", summary: "Edit an image", body: ImageEditRequest },
    relays.task((request) => ({ completion: read(request, "/v1/images/edits") })),
  );
}

const maxMaskBytes = 4 * 1024 * 1024;

function read({ body }: FastifyRequest, path: "/v1/images/edits" | "/v1/images/variations") {
  const { model, n, size, user, image, mask, prompt } = body as Partial<ImageEditRequest> & { readonly model: string };
  const given = (Array.isArray(image) ? image : [image]).map((one) => pictureOf(one, "image"));
  const cover = mask === undefined || mask === null ? undefined : pictureOf(mask, "mask");
  if (cover && cover.bytes.length > maxMaskBytes) throw partTooLarge("mask", maxMaskBytes);
  if (given.length > 1 && path === "/v1/images/variations") throw partRepeated("image");
  const request = { model, n: n ?? 1, ...sizeFrom(size), prompt, fields: { user } };
  return images(request, { path, images: given, mask: cover });
}

/** A file, or a data URI if the fields were wrapped as JSON. */
const pictureOf = (value: unknown, field: string): FormFile => {
  if (value instanceof FormFile) return value;
  if (typeof value !== "string" || !value.startsWith("data:")) throw fileMissing(field);
  return fileOf(value, field);
};
