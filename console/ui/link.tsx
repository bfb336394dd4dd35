// Links within the console, followed without loading the page again.
import { Anchor, type AnchorProps, Button, type ButtonProps, NavLink, type NavLinkProps } from "@mantine/core";
import { createLink } from "@tanstack/react-router";
import type { ComponentType, ReactNode, Ref } from "react";

interface Target {
  readonly to: string;
  readonly search?: Readonly<Record<string, string>>;
}
type WithRef = { readonly ref?: Ref<HTMLAnchorElement> };

// The router's types know no path, because pages come from lists.
const routed = <Props,>(component: (props: Props & WithRef) => ReactNode) =>
  createLink(component as never) as unknown as ComponentType<Props & Target>;

const RouterAnchor = routed((props: AnchorProps & { children?: ReactNode }) => <Anchor {...props} />);
const RouterButton = routed((props: ButtonProps & { children?: ReactNode }) => <Button component="a" {...props} />);
/** Entry of a menu. */
export const RouterNavLink = routed((props: NavLinkProps & { "aria-current"?: "page" | undefined }) => (
  <NavLink {...props} />
));

/** Splits `/path?query` into what the router takes. */
export function target(to: string): Required<Target> {
  const [path = "/", query = ""] = to.split("?");
  return { to: path, search: Object.fromEntries(new URLSearchParams(query)) };
}

interface LinkProps {
  /** Path of the console without `/console`, with its query: `/deployments?state=all`. */
  readonly to: string;
  readonly children: ReactNode;
}

/** In the size of the text around it, unless it is given one. */
export function Link({ to, children, ...rest }: LinkProps & AnchorProps & { title?: string }): ReactNode {
  return (
    <RouterAnchor {...target(to)} inherit={rest.size === undefined} {...rest}>
      {children}
    </RouterAnchor>
  );
}

export function LinkButton({ to, children, ...rest }: LinkProps & ButtonProps): ReactNode {
  return (
    <RouterButton {...target(to)} {...rest}>
      {children}
    </RouterButton>
  );
}

/** Link to a file of the API, which the session's cookie opens. */
export function Download({ href, name, label }: { href: string; name: string; label: string }): ReactNode {
  return (
    <Button component="a" href={href} download={name} size="xs" variant="default">
      {label}
    </Button>
  );
}
