//! Certificate trust, shared by all drivers.

use anyhow::{Context, Result, ensure};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, KeyLogFile, RootCertStore, SignatureScheme};
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Clone, Debug, Default)]
pub struct TlsTrust {
    /// PEM file of authorities; the system's if absent.
    pub ca: Option<PathBuf>,
    /// Accepts any certificate.
    pub insecure: bool,
}

impl TlsTrust {
    /// Sets the process-wide cryptography provider.
    pub fn install_provider() {
        // Fails if one is already set, which is fine.
        let _ = aws_lc_rs::default_provider().install_default();
    }

    /// Returns the content of the PEM file, if any.
    pub fn authorities(&self) -> Result<Option<Vec<u8>>> {
        let read = |path: &PathBuf| std::fs::read(path).with_context(|| format!("--tls-ca {}", path.display()));
        self.ca.as_ref().map(read).transpose()
    }

    pub fn config(&self) -> Result<Arc<ClientConfig>> {
        let builder = ClientConfig::builder();
        let mut config = if self.insecure {
            let anybody = Arc::new(AnyCertVerifier(Arc::new(aws_lc_rs::default_provider())));
            builder.dangerous().with_custom_certificate_verifier(anybody).with_no_client_auth()
        } else {
            builder.with_root_certificates(self.roots()?).with_no_client_auth()
        };
        // Honours SSLKEYLOGFILE, which `overhead capture --keylog` needs.
        config.key_log = Arc::new(KeyLogFile::new());
        Ok(Arc::new(config))
    }

    fn roots(&self) -> Result<RootCertStore> {
        let mut roots = RootCertStore::empty();
        if let Some(pem) = self.authorities()? {
            for certificate in CertificateDer::pem_slice_iter(&pem) {
                roots.add(certificate.context("--tls-ca: not a certificate in PEM form")?)?;
            }
        } else {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        ensure!(
            !roots.is_empty(),
            "no certificate authority to trust: name one with --tls-ca FILE, or use --tls-insecure"
        );
        Ok(roots)
    }
}

/// Accepts any certificate, but checks that the server has its key.
#[derive(Debug)]
struct AnyCertVerifier(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertVerifier {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
