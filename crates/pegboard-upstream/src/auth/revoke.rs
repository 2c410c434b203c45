//! Token revocation (RFC 7009).

use pegboard_core::Secret;
use reqwest::{StatusCode, Url, header::CONTENT_TYPE};

use super::{
    error::{LoginError, clean_reason},
    http::{HttpError, OAuthHttp},
    store::Grant,
};
use crate::config::OAuthConfig;

/// Revokes the tokens of a login; `false` if its issuer does not support that.
pub(super) async fn revoke(grant: &Grant, oauth: &OAuthConfig, server: &Url) -> Result<bool, LoginError> {
    let Some(endpoint) = &grant.revocation_endpoint else { return Ok(false) };
    let endpoint = Url::parse(endpoint).map_err(|_| LoginError::Metadata("no revocation endpoint".to_owned()))?;
    let http = OAuthHttp::new(server, oauth)?;
    http.guard().allow_network(grant.network);
    let secret = oauth.secret_for(&grant.client_id).map(Secret::expose).or(grant.client_secret.as_deref());
    let methods = grant.token_auth_methods.iter().flatten();
    let is_in_body = methods.clone().any(|method| method == "client_secret_post")
        && !methods.clone().any(|method| method == "client_secret_basic");
    // The refresh token first: that also revokes the access tokens that were made with it.
    let tokens = [("refresh_token", grant.refresh_token.as_ref()), ("access_token", Some(&grant.access_token))];
    for (kind, token) in tokens {
        let Some(token) = token else { continue };
        let form = [("token", token.as_str()), ("token_type_hint", kind), ("client_id", &grant.client_id)];
        let send = async |more: Option<(&str, &str)>| {
            let form: Vec<(&str, &str)> = form.into_iter().chain(more).collect();
            let mut request = http.client().post(endpoint.clone());
            if let Some(secret) = secret.filter(|_| !is_in_body) {
                request = request.basic_auth(encode(&grant.client_id), Some(encode(secret)));
            }
            let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(form_body(&form));
            let (response, _) = http.send(request.build().map_err(HttpError::SetUp)?).await?;
            Ok::<StatusCode, HttpError>(response.status())
        };
        let mut status = send(secret.filter(|_| is_in_body).map(|secret| ("client_secret", secret))).await?;
        if status == StatusCode::BAD_REQUEST && secret.is_none() {
            // The Python SDK requires an empty secret.
            status = send(Some(("client_secret", ""))).await?;
        }
        if !status.is_success() {
            return Err(LoginError::Revoke { issuer: clean_reason(&grant.issuer), status: status.as_u16() });
        }
    }
    Ok(true)
}

/// Returns names and values as a form body.
fn form_body(pairs: &[(&str, &str)]) -> String {
    let pairs: Vec<String> = pairs.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
    pairs.join("&")
}

fn encode(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        assert_eq!(form_body(&[("a", "b c"), ("token", "x/y+z=~é")]), "a=b%20c&token=x%2Fy%2Bz%3D~%C3%A9");
    }
}
