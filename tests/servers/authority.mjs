// A certified authorization server in which somebody is always logged in and agrees to everything.
// Started with the port to listen on, the resource that its tokens are for, a file for the secrets it meets, and
// the account that is logged in. Ann is in the group `staff`.
import { appendFileSync } from "node:fs";
import Provider from "oidc-provider";

const [port, resource, seen, account] = process.argv.slice(2);
const SECRETS = [
  "access_token", "client_assertion", "client_secret", "code", "code_verifier", "device_code", "id_token",
  "refresh_token", "registration_access_token",
];
const issuer = `http://127.0.0.1:${port}`;
const provider = new Provider(issuer, {
  clients: [
    {
      client_id: "nightly",
      client_secret: "5ecret-of-the-nightly-client",
      grant_types: ["client_credentials"],
      redirect_uris: [],
      response_types: [],
    },
  ],
  scopes: ["offline_access", "tools:read", "tools:write"],
  features: {
    clientCredentials: { enabled: true },
    deviceFlow: { enabled: true },
    devInteractions: { enabled: false },
    registration: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => resource,
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({
        scope: "tools:read tools:write",
        audience: resource,
        accessTokenFormat: "jwt",
        accessTokenTTL: 600,
      }),
    },
  },
  issueRefreshToken: () => true,
  extraTokenClaims: (_, token) => (token.accountId === "ann" ? { groups: ["staff"] } : undefined),
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  loadExistingGrant: async (ctx) => {
    const grant = new provider.Grant({
      clientId: ctx.oidc.client.clientId,
      accountId: ctx.oidc.session.accountId,
    });
    grant.addOIDCScope("openid offline_access tools:read tools:write");
    grant.addResourceScope(resource, "tools:read tools:write");
    await grant.save();
    return grant;
  },
});
provider.use(async (ctx, next) => {
  await next();
  const basic = ctx.get("authorization").replace(/^Basic /, "");
  const answer = new URL(ctx.response.get("location") || "/", issuer).searchParams;
  const known = { ...ctx.oidc?.body, ...Object.fromEntries(answer), basic };
  const body = ctx.body?.constructor === Object ? ctx.body : {};
  for (const found of [known, body])
    for (const name of [...SECRETS, "basic"])
      if (found[name]) appendFileSync(seen, `${JSON.stringify([name, found[name]])}\n`);
});
provider.use(async (ctx, next) => {
  if (!ctx.path.startsWith("/interaction/")) return next();
  const { prompt } = await provider.interactionDetails(ctx.req, ctx.res);
  const result = prompt.name === "login" ? { login: { accountId: account } } : { consent: {} };
  ctx.respond = false;
  await provider.interactionFinished(ctx.req, ctx.res, result, { mergeWithLastSubmission: true });
});
provider.listen(Number(port), "127.0.0.1", () => console.log("listening"));
